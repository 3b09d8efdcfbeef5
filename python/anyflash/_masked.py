"""Attention under a mask: the torch operator anyflash::attend_masked, on the CPU.

    out = attend_masked(q, k, v, Keys(padding), None, scale, True, -1, -1, 0.0, 0.0, 0)

Heads come before rows: q [B, H, Sq, D], k [B, G, Sk, D], v [B, G, Sk, Dv]. A mask is None or
one of the four types below. The operator takes their tensors, each with one meaning, and
reads lengths from them when it runs: no shape depends on data, so it is one node under
torch.compile(fullgraph=True). Differentiable in q, k, v and sinks.
"""

import weakref
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from . import _attend
from ._torch_ops import _threads
from .providers.call import unit


class Keys(NamedTuple):
    """The keys that each sequence of the batch has; causality and windows apply as well.

    used: integer [], the number of keys up to the last query's own; None: all. window:
    integer [], w - 1 keys to the left and, if not causal, as many to the right; 0 or None:
    window_left and window_right apply.
    """

    visible: Tensor  # bool [B, Sk]
    used: Optional[Tensor] = None
    window: Optional[Tensor] = None


class Sequences(NamedTuple):
    """Packed sequences, by the sequence that each row belongs to; window: as in Keys."""

    numbers: Tensor  # integer [B, S]
    window: Optional[Tensor] = None


class Starts(NamedTuple):
    """Packed sequences, by where they begin among the B * S rows; window: as in Keys."""

    cu_q: Tensor  # int32 [n + 1]
    cu_k: Tensor
    window: Optional[Tensor] = None


class Scores(NamedTuple):
    """A mask of scores. It is complete: neither causality nor a window applies in addition."""

    values: Tensor  # broadcast to [B, H, Sq, Sk]: bool, True is visible; or float, is added


PACKED = (Sequences, Starts)

_MASK = "scores, keys, used, numbers, cu_q, cu_k, window".split(", ")
_ARGUMENTS = ", ".join(f"Tensor? {name}" for name in _MASK) + (
    ", Tensor? sinks, float scale, bool causal, int window_left, int window_right, "
    "float softcap, float dropout, int seed"
)
_NUMBER_COUNT = 7  # of _ARGUMENTS, those behind the sinks
_library = torch.library.Library("anyflash", "FRAGMENT")
_library.define(
    f"attend_masked(Tensor q, Tensor k, Tensor v, {_ARGUMENTS}) -> (Tensor, Tensor)"
)
_library.define(
    "attend_masked_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor)"
)


def tensors_of(mask):
    """The mask as the operator's arguments _MASK."""
    if isinstance(mask, Scores):
        return (mask.values, None, None, None, None, None, None)
    if isinstance(mask, Keys):
        return (None, mask.visible, mask.used, None, None, None, mask.window)
    if isinstance(mask, Sequences):
        return (None, None, None, mask.numbers, None, None, mask.window)
    if isinstance(mask, Starts):
        return (None, None, None, None, mask.cu_q, mask.cu_k, mask.window)
    return (None,) * len(_MASK)


def _mask_of(scores, keys, used, numbers, cu_q, cu_k, window):
    if scores is not None:
        return Scores(scores)
    if keys is not None:
        return Keys(keys, used, window)
    if numbers is not None:
        return Sequences(numbers, window)
    return None if cu_q is None else Starts(cu_q, cu_k, window)


def sequence_starts(numbers):
    """int32 [n + 1]: where the sequences of Sequences.numbers begin, and the last ends."""
    batch, rows = numbers.shape
    begins = torch.ones(batch, rows, dtype=torch.bool, device=numbers.device)
    begins[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    starts = begins.flatten().nonzero().flatten()
    return torch.cat((starts, starts.new_tensor([batch * rows]))).to(torch.int32)


def window_of(mask, causal):
    """(left, right) of the mask's own window; None if it has none."""
    window = getattr(mask, "window", None)
    width = 0 if window is None else int(window)
    return (width - 1, -1 if causal else width - 1) if width else None


def used_of(mask):
    """The number of keys up to the last query of Keys."""
    return mask.visible.shape[1] if mask.used is None else int(mask.used)


def run_of(visible):
    """(first, last), each int64 [B, 1], if each batch sees one run of keys; else None."""
    first = visible.byte().argmax(1, keepdim=True)
    last = first + visible.sum(1, keepdim=True)
    key = torch.arange(visible.shape[1], device=visible.device)
    return (first, last) if torch.equal(visible, (key >= first) & (key < last)) else None


def _of_keys(mask, q_len):
    """Options for the engine: one run of keys for each batch as lengths, else as a mask."""
    run = run_of(mask.visible)
    offset = used_of(mask) - q_len
    offsets = torch.full((mask.visible.shape[0],), offset, dtype=torch.int32)
    if run is None:
        return {"causal_offsets": offsets, "mask": mask.visible[:, None, None, :]}
    first, last = (x.flatten().to(torch.int32) for x in run)
    return {"causal_offsets": offsets, "leftpad_k": first, "seqused_k": last}


def _of_scores(values, k_len):
    values = unit(values[..., :k_len])
    kind = "mask" if values.dtype == torch.bool else "bias"
    return {kind: values, "causal": False, "window": (-1, -1)}


def _of_starts(cu_q, cu_k):
    return {
        "cu_seqlens_q": cu_q,
        "cu_seqlens_k": cu_k,
        "max_seqlen_q": int(cu_q.diff().max()),
        "max_seqlen_k": int(cu_k.diff().max()),
    }


def _read(mask, q_len, causal):
    """Options for the engine that are read from the values of a mask's tensors."""
    if isinstance(mask, Keys):
        options = _of_keys(mask, q_len)
    else:
        starts = mask[:2]
        if isinstance(mask, Sequences):
            starts = [sequence_starts(mask.numbers)] * 2
        options = _of_starts(*starts)
    window = window_of(mask, causal)
    return options if window is None else {**options, "window": window}


class Remembered:
    """Caches what was last read from tensors: all layers of a model get the same mask."""

    def __init__(self):
        self.kept = (lambda: None, None, None, None)

    def get(self, tensors, key, read):
        """read(), or its previous result if these tensors and the key are unchanged."""
        tensors = [x for x in tensors if x is not None]
        if any(x.is_inference() for x in tensors):  # their changes cannot be detected
            return read()
        state = (key, *[(id(x), x._version) for x in tensors])
        first, known, _, value = self.kept
        if first() is not tensors[0] or known != state:
            value = read()
            self.kept = (weakref.ref(tensors[0]), state, tensors[1:], value)
        return value


_last = Remembered()


def _options(
    q, k, mask, sinks, scale, causal, window_left, window_right, softcap, dropout, seed
):
    """The arguments of _attend for those of the operator."""
    options = {
        "sinks": sinks,
        "scale": scale,
        "causal": causal,
        "window": (window_left, window_right),
        "softcap": softcap,
        "dropout": dropout,
        "philox": (seed, 0),
        "_threads_of": _threads,
    }
    if not isinstance(mask, PACKED):
        options["layout"] = "bhsd"
    if isinstance(mask, Scores):
        options.update(_of_scores(mask.values, k.shape[2]))
    elif mask is not None:
        rows = q.shape[2]
        kind = (type(mask), rows, causal)
        options.update(_last.get(mask, kind, lambda: _read(mask, rows, causal)))
    return options


def _joined(x):
    """[B, heads, S, D] as packed rows [B * S, heads, D]."""
    return unit(x.transpose(1, 2).flatten(0, 1))


def _split(arguments):
    """(the mask, the arguments behind it)."""
    return _mask_of(*arguments[: len(_MASK)]), arguments[len(_MASK) :]


def _forward(q, k, v, *arguments):
    mask, arguments = _split(arguments)
    with torch.no_grad():
        options = _options(q, k, mask, *arguments)
        out = q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3]))
        if isinstance(mask, PACKED):
            tensors, target = [_joined(x) for x in (q, k, v)], out.flatten(0, 1)
        else:
            tensors, target = [unit(x) for x in (q, k, v)], out.transpose(1, 2)
        lse = _attend.attend(*tensors, out=target, return_lse=True, **options)[1]
    return out, lse


def _backward(dout, q, k, v, out, lse, *arguments):
    mask, arguments = _split(arguments)
    sinks = arguments[0]
    with torch.no_grad():
        options = _options(q, k, mask, *arguments)
        dout = unit(dout)
        if isinstance(mask, PACKED):
            tensors = [dout.flatten(0, 1), *[_joined(x) for x in (q, k, v)]]
            tensors.append(out.flatten(0, 1))
        else:
            tensors = [dout.transpose(1, 2), *[unit(x) for x in (q, k, v)]]
            tensors.append(out.transpose(1, 2))
        options["return_dsinks"] = sinks is not None
        found = list(_attend.attend_backward(*tensors, lse, **options))
        if isinstance(mask, PACKED):
            rows = [(x.shape[0], x.shape[2]) for x in (q, k, v)]
            found[:3] = [x.unflatten(0, r).transpose(1, 2) for x, r in zip(found, rows)]
    return (*found, *([q.new_empty(0, dtype=torch.float32)] if sinks is None else []))


def _forward_fake(q, k, v, *arguments):
    batch, heads, rows = q.shape[:3]
    is_packed = isinstance(_split(arguments)[0], PACKED)
    shape = (heads, batch * rows) if is_packed else (batch, heads, rows)
    out = q.new_empty((batch, rows, heads, v.shape[3]))
    return out, q.new_empty(shape, dtype=torch.float32)


def _backward_fake(dout, q, k, v, out, lse, *arguments):
    mask, (sinks, *_) = _split(arguments)
    gradients = [
        x.new_empty(x.transpose(1, 2).shape).transpose(1, 2)
        if isinstance(mask, PACKED)
        else x.new_empty(x.shape)
        for x in (q, k, v)
    ]
    heads = 0 if sinks is None else q.shape[1]
    return (*gradients, q.new_empty(heads, dtype=torch.float32))


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:-_NUMBER_COUNT])
    ctx.numbers = inputs[-_NUMBER_COUNT:]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, dout, dlse):
    saved = ctx.saved_tensors  # q, k, v, out, lse, the mask's, sinks
    dq, dk, dv, dsinks = torch.ops.anyflash.attend_masked_backward(
        dout, *saved, *ctx.numbers
    )
    dsinks = None if saved[-1] is None else dsinks
    return (dq, dk, dv, *[None] * len(_MASK), dsinks, *[None] * _NUMBER_COUNT)


_library.impl("attend_masked", _forward, "CPU")
_library.impl("attend_masked_backward", _backward, "CPU")
torch.library.register_fake("anyflash::attend_masked", _forward_fake, lib=_library)
torch.library.register_fake("anyflash::attend_masked_backward", _backward_fake, lib=_library)
torch.library.register_autograd(
    "anyflash::attend_masked", _gradients, setup_context=_keep, lib=_library
)


def attend_masked(q, k, v, mask, sinks, *numbers):
    """out [B, Sq, H, Dv] of CPU tensors; rows before heads, as models want it next.

    numbers: scale, causal, window_left, window_right, softcap, dropout, seed.
    """
    arguments = (q, k, v, *tensors_of(mask), sinks, *numbers)
    differentiable = (q, k, v, sinks)
    if torch.compiler.is_compiling() or (
        torch.is_grad_enabled()
        and any(x is not None and x.requires_grad for x in differentiable)
    ):
        return torch.ops.anyflash.attend_masked(*arguments)[0]
    return _forward(*arguments)[0]
