"""torch's memory efficient kernel: float32, and GPUs before compute capability 8.0.

What the operator lacks is computed around it: a cache's new keys are appended first, pages are
gathered, groups of heads become rows (one query) or copies (before torch 2.14), bfloat16
before compute capability 8.0 goes through float32, rows without keys are set to 0. ALiBi and
windows to the right are a dense bias, for scores of up to MOST_BIAS elements. Under ROCm the
operator ignores windows and lengths of a cache, so they are composed, too.
"""

import torch

from . import aten, compose, trial
from .call import needs_gradient
from .checks import check
from .features import HALVES, Limits, features, outside, too_old_or_new
from .flash import capability, finished, options, unusable

name = "torch_efficient"

#: Device types whose tensors are computed; tests without a GPU add "cpu".
DEVICES = ("cuda",)

LIMITS = Limits(
    (torch.float32, *HALVES),
    None,
    ((5, 0), (12, 1)),
    ("softcap", "probabilities", ("gradient", "pages")),
)
#: The most elements of a dense bias: 256 MiB of float32.
MOST_BIAS = 1 << 26


def _needs_bias(call):
    left, right = call.limits
    if call.alibi_slopes is not None or right > 0 or (left >= 0 and right != 0):
        return True
    return left >= 0 and bool(torch.version.hip)


def _bias_elements(call):
    batch = call.q.shape[0] if call.cu_q is None else call.cu_q.shape[0] - 1
    rows = call.q.shape[1] if call.cu_q is None else call.max_q
    keys = call.k.shape[1] if call.cu_k is None else call.max_k
    if call.block_table is not None:
        keys *= call.block_table.shape[1]
    heads = 1 if call.alibi_slopes is None else call.q.shape[-2]
    slopes = call.alibi_slopes
    alike = call.cu_q is None and call.seqused_k is None
    alike = alike and (slopes is None or slopes.dim() == 1)
    return rows * keys * heads * (1 if alike else batch)


def declines(call):
    asked = features(call)
    reason = unusable(call, "efficient", DEVICES) or outside(call, LIMITS, asked)
    if reason is None and not torch.version.hip:
        reason = too_old_or_new(capability(call.q.device), LIMITS)
    if reason is None and _needs_bias(call) and _bias_elements(call) > MOST_BIAS:
        what = "ALiBi" if call.alibi_slopes is not None else "this window"
        reason = f"supports {what} only up to {MOST_BIAS} scores"
    if reason is None and "gradient" in asked and torch.compiler.is_compiling():
        if not aten.TRACED_EFFICIENT_GRADIENT:
            reason = "has no gradient in a compiled graph with this torch"
        elif call.deterministic:
            reason = "is not deterministic in a compiled graph"
    return reason or trial.failure(name, call, asked)


def _is_wide(call):
    """Whether the call is computed in float32: ALiBi would be rounded, or there is no bf16."""
    if call.q.dtype == torch.float32:
        return False
    old = not torch.version.hip and capability(call.q.device) < (8, 0)
    return call.alibi_slopes is not None or (old and call.q.dtype == torch.bfloat16)


def _grouped(call):
    """The call with as many key heads as query heads."""
    group = call.q.shape[-2] // call.k.shape[-2]
    if group == 1:
        return call
    if call.k.shape[-2] == 1:
        heads = call.q.shape[-2]
        k, v = (x.expand(*x.shape[:-2], heads, x.shape[-1]) for x in (call.k, call.v))
    else:
        k, v = (x.repeat_interleave(group, -2) for x in (call.k, call.v))
    return call.but(k=k, v=v)


def _with_bias(call):
    """(out, lse) with the mask and ALiBi in a dense bias."""
    dense = compose.Dense(call)
    call = _grouped(compose.widened(dense.call, one_size=False))
    bias, seen = compose.bias(dense, call.q.dtype)
    if bias is not None:
        batch, rows, heads = call.q.shape[:3]
        keys = bias.shape[-1]
        bias = torch.nn.functional.pad(bias, (0, -keys % 16))[..., :keys]
        bias = bias.expand(batch, heads, rows, keys)
    given = {**options(call), "causal": False, "deterministic": call.deterministic}
    out, lse = aten.attend("efficient", call.q, call.k, call.v, bias=bias, **given)
    if seen is not None:
        out = torch.where(seen.transpose(1, 2), out, 0.0)
        empty = torch.inf if call.sinks is None else call.sinks.detach().float()[:, None]
        lse = torch.where(seen.squeeze(-1), lse, empty)
    return dense.out(out), dense.lse(lse)


def _is_foldable(call):
    rows = call.q.shape[1] if call.cu_q is None else call.max_q
    plain = call.sinks is None and call.limits in ((-1, -1), (-1, 0))
    return rows == 1 and plain and not needs_gradient(call) and call.dropout == 0


def _direct(call):
    """(out, lse) with a mask that the operator supports."""
    call = compose.widened(compose.gather(call), one_size=False)
    more, before, back = {}, call, None
    if call.seqused_k is not None:
        call = compose.packed(call, holes=bool(torch.version.hip))
    if call.seqused_k is not None:
        more["used"] = call.seqused_k
    seen = compose.seen(call)
    if call.q.shape[-2] != call.k.shape[-2] and not aten.EFFICIENT_GROUPS:
        if _is_foldable(call):
            if seen is not None:
                seen = seen.repeat(1, call.q.shape[-2] // call.k.shape[-2])
            call, back = compose.fold(call)
        else:
            call = _grouped(call)
    # A window without causal=True is one here: its right side is 0.
    given = {**options(call), "causal": call.limits[1] == 0, "seen": seen}
    given.update(window=(call.window[0], -1), deterministic=call.deterministic)
    out, lse = aten.attend("efficient", call.q, call.k, call.v, **given, **more)
    if back is not None:
        out, lse = back(out, lse)
    return compose.unpacked(out, lse, before)


def forward(call):
    """(out, lse, None); lse is None unless call.want asks for it."""
    check(call)
    dtype, size = call.q.dtype, call.v.shape[-1]
    with compose.without_autocast(call.q.device.type):
        call = compose.append(call)
        if _is_wide(call):
            call = compose.gather(call)
            q, k, v = (x.float() for x in (call.q, call.k, call.v))
            call = call.but(q=q, k=k, v=v, scale=call.softmax_scale)
        out, lse = (_with_bias if _needs_bias(call) else _direct)(call)
        out = out[..., :size]
    return finished(call, out.to(dtype), lse)
