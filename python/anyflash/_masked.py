"""Attention under a mask tensor: the torch operator anyflash::attend_masked, on the CPU.

Heads stand before rows: q [B, H, Sq, D], k [B, G, Sk, D], v [B, G, Sk, Dv]. What `mask`
means follows from its type and rank:
  bool [B, Sk]: keys that may be seen; the last query stands at the last key
  int32 [B, 1, 1, 1 + Sk]: the same with a window, or for a cache that is longer than what is
     in it: first the window, then for each key 0 where it is hidden, else the number of keys
     up to the last query
  int64 [B, 1, 1, 1 + S]: packed sequences: first the window, then for each row the number of
     the sequence that it belongs to
  other, broadcast to [B, H, Sq, Sk]: bool, True is visible, or a float that is added
A window of w is one of w - 1 keys to the left, and as many to the right where not causal; 0
is none, and window_left and window_right then stand. With cu_q, cu_k, int32, where packed
sequences begin, `mask` gives its window only.

Lengths are read from the mask when the operator runs: no shape depends on data, so it is one
node under torch.compile(fullgraph=True). Differentiable in q, k, v and sinks.
"""

import weakref

import torch

from . import _attend
from ._torch_ops import _threads

_ARGUMENTS = (
    "Tensor? mask, Tensor? cu_q, Tensor? cu_k, Tensor? sinks, float scale, bool causal, "
    "int window_left, int window_right, float softcap, float dropout, int seed"
)
_ARGUMENT_COUNT = 11
_library = torch.library.Library("anyflash", "FRAGMENT")
_library.define(
    f"attend_masked(Tensor q, Tensor k, Tensor v, {_ARGUMENTS}) -> (Tensor, Tensor)"
)
_library.define(
    "attend_masked_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor)"
)


def is_packed(mask, cu_q):
    return cu_q is not None or (mask is not None and mask.dtype == torch.int64)


def is_short(mask):
    """Whether the mask has one number for each key, and causality comes on top of it."""
    return mask.dim() == 2 or mask.dtype in (torch.int32, torch.int64)


def sequence_starts(mask):
    """int32 [n + 1]: where the sequences of an int64 mask begin, and the end of the last."""
    numbers = mask[:, 0, 0, 1:]
    batch, rows = numbers.shape
    begins = torch.ones(batch, rows, dtype=torch.bool, device=numbers.device)
    begins[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    starts = begins.flatten().nonzero().flatten()
    return torch.cat((starts, starts.new_tensor([batch * rows]))).to(torch.int32)


def window_of(mask, causal):
    """(left, right) that a mask of integers holds; None where it has none."""
    if mask is None or mask.dtype not in (torch.int32, torch.int64):
        return None
    width = int(mask.flatten()[0])
    return (width - 1, -1 if causal else width - 1) if width else None


def keys_of(mask):
    """(bool [B, Sk], number of keys up to the last query) of a bool or int32 mask."""
    if mask.dtype == torch.bool:
        return mask, mask.shape[1]
    codes = mask[:, 0, 0, 1:]
    return codes != 0, int(codes.max())


def run_of(visible):
    """(first, last), each int64 [B, 1], if each batch sees one run of keys; else None."""
    first = visible.byte().argmax(1, keepdim=True)
    last = first + visible.sum(1, keepdim=True)
    key = torch.arange(visible.shape[1], device=visible.device)
    return (first, last) if torch.equal(visible, (key >= first) & (key < last)) else None


def _of_keys(mask, q_len):
    """Options for the engine: one run of keys for each batch as lengths, else as a mask."""
    visible, used = keys_of(mask)
    run = run_of(visible)
    offsets = torch.full((mask.shape[0],), used - q_len, dtype=torch.int32)
    if run is None:
        return {"causal_offsets": offsets, "mask": visible[:, None, None, :]}
    first, last = (x.flatten().to(torch.int32) for x in run)
    return {"causal_offsets": offsets, "leftpad_k": first, "seqused_k": last}


def _of_scores(mask, k_len):
    mask = mask[..., :k_len]
    if mask.stride(-1) != 1:
        mask = mask.contiguous()
    kind = "mask" if mask.dtype == torch.bool else "bias"
    return {kind: mask, "causal": False, "window": (-1, -1)}


def _of_starts(cu_q, cu_k):
    return {
        "cu_seqlens_q": cu_q,
        "cu_seqlens_k": cu_k,
        "max_seqlen_q": int(cu_q.diff().max()),
        "max_seqlen_k": int(cu_k.diff().max()),
    }


def _of_window(mask, causal):
    window = window_of(mask, causal)
    return {} if window is None else {"window": window}


def _of_short(mask, q_len, causal):
    if mask.dtype == torch.int64:
        starts = sequence_starts(mask)
        return {**_of_starts(starts, starts), **_of_window(mask, causal)}
    return {**_of_keys(mask, q_len), **_of_window(mask, causal)}


class _Last:
    """What the last short mask said: all layers of a model get the same one."""

    def __init__(self):
        self.kept = (lambda: None, None, None)

    def get(self, mask, q_len, causal):
        if mask.is_inference():  # changes of such a tensor leave no trace
            return _of_short(mask, q_len, causal)
        key = (mask._version, q_len, causal)
        reference, kept_key, options = self.kept
        if reference() is not mask or kept_key != key:
            options = _of_short(mask, q_len, causal)
            self.kept = (weakref.ref(mask), key, options)
        return options


_last = _Last()


def _options(
    q, k, mask, cu_q, cu_k, sinks, scale, causal, left, right, softcap, dropout, seed
):
    """What _attend takes for the arguments of the operator."""
    options = {
        "sinks": sinks,
        "scale": scale,
        "causal": causal,
        "window": (left, right),
        "softcap": softcap,
        "dropout": dropout,
        "philox": (seed, 0),
        "_threads_of": _threads,
    }
    if not is_packed(mask, cu_q):
        options["layout"] = "bhsd"
    if cu_q is not None:
        options.update(_of_starts(cu_q, cu_k), **_of_window(mask, causal))
    elif mask is not None and is_short(mask):
        options.update(_last.get(mask, q.shape[2], causal))
    elif mask is not None:
        options.update(_of_scores(mask, k.shape[2]))
    return options


def _unit(x):
    return x if x.stride(-1) == 1 else x.contiguous()


def _joined(x):
    """[B, heads, S, D] as packed rows [B * S, heads, D]."""
    return _unit(x.transpose(1, 2).flatten(0, 1))


def _forward(q, k, v, mask, cu_q, *arguments):
    with torch.no_grad():
        options = _options(q, k, mask, cu_q, *arguments)
        out = q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3]))
        if is_packed(mask, cu_q):
            tensors, target = [_joined(x) for x in (q, k, v)], out.flatten(0, 1)
        else:
            tensors, target = [_unit(x) for x in (q, k, v)], out.transpose(1, 2)
        lse = _attend.attend(*tensors, out=target, return_lse=True, **options)[1]
    return out, lse


def _backward(dout, q, k, v, out, lse, mask, cu_q, cu_k, sinks, *arguments):
    with torch.no_grad():
        options = _options(q, k, mask, cu_q, cu_k, sinks, *arguments)
        packed = is_packed(mask, cu_q)
        dout = _unit(dout)
        if packed:
            tensors = [dout.flatten(0, 1), *[_joined(x) for x in (q, k, v)]]
            tensors.append(out.flatten(0, 1))
        else:
            tensors = [dout.transpose(1, 2), *[_unit(x) for x in (q, k, v)]]
            tensors.append(out.transpose(1, 2))
        found = list(
            _attend.attend_backward(
                *tensors, lse, return_dsinks=sinks is not None, **options
            )
        )
        if packed:
            rows = [(x.shape[0], x.shape[2]) for x in (q, k, v)]
            found[:3] = [x.unflatten(0, r).transpose(1, 2) for x, r in zip(found, rows)]
    return (*found, *([q.new_empty(0, dtype=torch.float32)] if sinks is None else []))


def _forward_fake(q, k, v, mask, cu_q, *arguments):
    batch, heads, rows = q.shape[:3]
    shape = (heads, batch * rows) if is_packed(mask, cu_q) else (batch, heads, rows)
    out = q.new_empty((batch, rows, heads, v.shape[3]))
    return out, q.new_empty(shape, dtype=torch.float32)


def _backward_fake(dout, q, k, v, out, lse, mask, cu_q, cu_k, sinks, *arguments):
    packed = is_packed(mask, cu_q)
    gradients = [
        x.new_empty(x.transpose(1, 2).shape).transpose(1, 2)
        if packed
        else x.new_empty(x.shape)
        for x in (q, k, v)
    ]
    heads = 0 if sinks is None else q.shape[1]
    return (*gradients, q.new_empty(heads, dtype=torch.float32))


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:7])
    ctx.arguments = inputs[7:]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, dout, dlse):
    q, k, v, out, lse, mask, cu_q, cu_k, sinks = ctx.saved_tensors
    dq, dk, dv, dsinks = torch.ops.anyflash.attend_masked_backward(
        dout, q, k, v, out, lse, mask, cu_q, cu_k, sinks, *ctx.arguments
    )
    dsinks = dsinks if sinks is not None else None
    return (dq, dk, dv, None, None, None, dsinks, *[None] * (_ARGUMENT_COUNT - 4))


_library.impl("attend_masked", _forward, "CPU")
_library.impl("attend_masked_backward", _backward, "CPU")
torch.library.register_fake("anyflash::attend_masked", _forward_fake, lib=_library)
torch.library.register_fake("anyflash::attend_masked_backward", _backward_fake, lib=_library)
torch.library.register_autograd(
    "anyflash::attend_masked", _gradients, setup_context=_keep, lib=_library
)


def attend_masked(q, k, v, mask, cu_q, cu_k, sinks, *arguments):
    """out [B, Sq, H, Dv] of CPU tensors; rows before heads, as models want it next."""
    tensors = (q, k, v, sinks)
    if torch.compiler.is_compiling() or (
        torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    ):
        return torch.ops.anyflash.attend_masked(
            q, k, v, mask, cu_q, cu_k, sinks, *arguments
        )[0]
    return _forward(q, k, v, mask, cu_q, cu_k, sinks, *arguments)[0]
