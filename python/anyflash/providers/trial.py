"""The known-answer trial: a provider computes a small problem before its first use.

    reason = failure(provider.name, call, features(call))       # None: it may compute the call

The problem is of the call's kind: device, element type, head size, mask, layout, with a
gradient or without. Its results are compared with the formula (plain.py). This finds what a
build leaves out, what a GPU does not support and what a release computes differently before it
affects a user's tensors; the failure is logged once. A result is valid for the whole process.

As a program, `python -m anyflash.providers.trial NAME DEVICE INDEX` tries one provider in a
process of its own, because a broken extension may crash it, and prints "right".
"""

import logging
import sys

import torch

from . import load, plain
from .call import LSE, OUT, Call
from .features import FEATURES

_log = logging.getLogger("anyflash")

#: Largest error, as part of a result's largest value; more is wrong, not rounding.
BOUND = 0.03
#: The problem of the program: features that every release of every package has.
BASE = ("gradient", "causal", "window", "grouped")

#: Features that are not part of a problem: random numbers have no known answer.
_NOT_TRIED = ("dropout", "probabilities")
_ROWS, _KEYS, _PAGE = 150, 230, 256
#: Lengths of packed sequences: queries and keys. Of the last two some rows see no key.
_LENGTHS = ((40, 150, 9), (230, 100, 3))
_known = {}


def _values(shape, seed, device, dtype):
    """Values of [-1, 1) that look random, made without the random generator, whose state
    belongs to the user."""
    i = torch.arange(torch.Size(shape).numel(), device=device) + seed
    return (((i * 7919 + i * i % 1009 * 31) % 1024) / 512 - 1).reshape(shape).to(dtype)


def _starts(lengths, device):
    values = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    return torch.tensor(values, dtype=torch.int32, device=device)


def _shapes(kind):
    """(shape of q, of k and v) without the head size."""
    heads, groups = 4, 2 if "grouped" in kind else 4
    rows = 1 if "decode" in kind else _ROWS
    if "packed sequences" in kind:
        lengths = (1,) * 3 if "decode" in kind else _LENGTHS[0]
        q = (sum(lengths), heads)
    else:
        q = (3, rows, heads)
    if "pages" in kind:
        return q, (5, _PAGE, groups)
    if "cache" in kind:
        return q, (3, _PAGE, groups)
    if "packed sequences" in kind:
        return q, (sum(_LENGTHS[0 if "square" in kind else 1]), groups)
    return q, (3, rows if "square" in kind else _KEYS, groups)


def _problem(kind, device, dtype, size):
    """The Call of this kind: a set of features, "grouped", "decode", "square"."""
    q_shape, k_shape = _shapes(kind)
    tensors = [
        _values((*shape, size), seed, device, dtype)
        for shape, seed in zip((q_shape, k_shape, k_shape), (0, 1700, 9300))
    ]
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=device)
    call = Call(
        *[x.requires_grad_("gradient" in kind) for x in tensors],
        0.0,
        size**-0.5,
        "causal" in kind,
        (20, -1 if "causal" in kind else 30) if "window" in kind else (-1, -1),
        4.0 if "softcap" in kind else 0.0,
        slopes if "ALiBi" in kind else None,
        "deterministic gradient" in kind,
        LSE if "logsumexp" in kind else OUT,
    )
    if "sinks" in kind:
        call.sinks = slopes.clone().requires_grad_("gradient" in kind)
    if "packed sequences" in kind:
        lengths = (1,) * 3 if "decode" in kind else _LENGTHS[0]
        call.cu_q, call.max_q = _starts(lengths, device), max(lengths)
        if "square" in kind:
            call.cu_k, call.max_k = call.cu_q, call.max_q
        elif "cache" not in kind:
            call.cu_k, call.max_k = _starts(_LENGTHS[1], device), max(_LENGTHS[1])
    if "cache" in kind:
        call.cache = True
        call.seqused_k = torch.tensor(_LENGTHS[1], dtype=torch.int32, device=device)
    if "pages" in kind:
        table = [[4], [0], [2]]
        call.block_table = torch.tensor(table, dtype=torch.int32, device=device)
    return call


def _results(forward, call, kind, dtype):
    """Output, logsumexp and gradients of a call, as far as its kind has them; `dtype`: the type
    that the tried provider computes in."""
    out, lse, _ = forward(call)
    found = [out] + ([lse] if "logsumexp" in kind else [])
    if "gradient" in kind:
        leaves = [call.q, call.k, call.v] + ([call.sinks] if "sinks" in kind else [])
        weight = _values(out.shape, 400, out.device, dtype)
        found += torch.autograd.grad(out, leaves, weight.to(out.dtype))
    return found


def _distance(have, want):
    """The largest error of the results: 0.01 is 1% of the largest value."""
    have, want = have.detach().float(), want.detach().float()
    finite = torch.isfinite(want)
    if not torch.equal(have[~finite], want[~finite]):
        return float("inf")
    have, want = have[finite], want[finite]
    return float((have - want).abs().max() / want.abs().max().clamp_min(1e-9))


def _compare(provider, kind, device, dtype, size):
    """None, or what is wrong with the provider's answer; raises what the provider raises."""
    with torch.inference_mode(False), torch.enable_grad():
        call = _problem(kind, device, dtype, size)
        wide = _problem(kind, device, torch.float32, size)
        for name in ("q", "k", "v"):  # the same values, after rounding
            exact = getattr(call, name).detach().float()
            setattr(wide, name, exact.requires_grad_("gradient" in kind))
        found = _results(provider.forward, call, kind, dtype)
        if found[0].dtype != dtype:
            return "returns {} where {} is expected".format(found[0].dtype, dtype)
        wanted = _results(plain.forward, wide, kind, dtype)
        for have, want in zip(found, wanted):
            if have.shape != want.shape:
                shapes = tuple(have.shape), tuple(want.shape)
                return "returns the shape {} where {} is expected".format(*shapes)
        far = [_distance(*pair) for pair in zip(found, wanted)]
    if all(x < BOUND for x in far):
        return None
    if any(x != x or x == float("inf") for x in far):
        return "returns values that are not finite for a known answer"
    return f"misses a known answer by {max(far):.0%}"


def _failure(name, kind, device, dtype, size):
    try:
        return _compare(load(name), kind, device, dtype, size)
    except Exception as error:  # any error is a reason not to use the provider
        text = str(error).strip()
        return f"fails its trial: {text.splitlines()[0] if text else repr(error)}"


def _capturing(device):
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@torch.compiler.assume_constant_result
def _tried(name, device, dtype, size, kind):
    key = (name, device, dtype, size, kind)
    if key not in _known:
        if _capturing(device):
            return None
        reason = _failure(name, kind, device, dtype, size)
        if reason is not None and "out of memory" in reason.lower():
            return reason  # temporary, not a fault of the provider
        _known[key] = reason
        if reason is not None:
            what = ", ".join(kind) or "plain attention"
            _log.info("'%s' is not used on %s for %s: it %s", name, device, what, reason)
    return _known[key]


def failure(name, call, asked):
    """Why the provider cannot compute calls of this kind on this device; None if it can."""
    q, k = call.q, call.k
    rows = call.max_q if call.cu_q is not None else q.shape[1]
    kind = [word for word in FEATURES if word in asked and word not in _NOT_TRIED]
    if q.shape[-2] != k.shape[-2]:
        kind.append("grouped")
    if rows == 1:
        kind.append("decode")
    elif "cache" not in kind:
        same = call.cu_q is call.cu_k if call.cu_q is not None else rows == k.shape[1]
        if same:
            kind.append("square")
    size = max(q.shape[-1], call.v.shape[-1])
    size = 64 if size <= 64 else 128 if size <= 128 else 256
    return _tried(name, q.device, q.dtype, size, tuple(kind))


def main():
    name, device, index = sys.argv[1:]
    device = torch.device(device, int(index)) if device == "cuda" else torch.device(device)
    provider = load(name)
    provider.prepare()
    reason = _compare(provider, BASE, device, torch.float16, 64)
    if reason is not None:
        sys.exit(reason)
    print("right")


if __name__ == "__main__":
    main()
