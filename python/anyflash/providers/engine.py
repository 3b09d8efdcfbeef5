"""The engine's CPU kernels, for CPU tensors: every option of flash-attn, and sinks.

Without a gradient a call costs the engine call and little more; in a compiled
graph and for gradients it is an operator, anyflash::attend.
"""

import torch

from .. import _attend, _lib, _torch_ops
from .call import LSE, PROBABILITIES, needs_gradient, transformed, unit

name = "engine"

_TYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
_INF = float("inf")
_peek = torch._C._functorch.peek_interpreter_stack


def declines(call):
    q = call.q
    if not q.is_cpu:
        return f"computes on the CPU, q is on {q.device}"
    if q.dtype not in _TYPES:
        return f"computes float32, bfloat16 and float16, q is {q.dtype}"
    if _peek() is not None:
        return "is not transformed by torch.func"
    if call.block_table is not None and needs_gradient(call):
        return "has no gradient through pages"
    return None


def _seed(dropout):
    """From torch's generator, so that torch.manual_seed() decides."""
    return int(torch.empty((), dtype=torch.int64).random_()) if dropout > 0 else 0


def _float32(tensor):
    return None if tensor is None else tensor.to(torch.float32).contiguous()


def _options(call):
    """As anyflash::attend takes them."""
    left, right = call.window
    return (
        call.cu_q,
        call.cu_k,
        call.max_q,
        call.max_k,
        call.seqused_k,
        None,
        call.block_table,
        _float32(call.alibi_slopes),
        _float32(call.sinks),
        float(call.softmax_scale),
        bool(call.causal),
        int(left),
        int(right),
        float(call.softcap),
        float(call.dropout),
        _seed(call.dropout),
    )


def _unit_values(k, start, stop, call):
    """Values of which column c is 1 in row start + c of a sequence, and 0 elsewhere."""
    rows = torch.arange(k.shape[0 if call.cu_k is not None else 1])
    if call.cu_k is not None:
        batch = torch.searchsorted(call.cu_k.long(), rows, right=True) - 1
        rows = rows - call.cu_k.long()[batch]
    unit = (rows[:, None] == torch.arange(start, stop)).to(k.dtype)
    return unit[:, None].expand(*k.shape[:-1], stop - start).contiguous()


def _probabilities(call, q, k, options):
    """S_dmask [B, H, Sq, Sk]: the probabilities, those that dropout took negative.

    For tests and debugging, as flash-attn's: by two more attentions over unit vectors.
    """
    columns, width = call.max_k if call.cu_k is not None else k.shape[1], 256
    parts = []
    for start in range(0, columns, width):
        unit = _unit_values(k, start, min(start + width, columns), call)
        dropped = _torch_ops.attend(q, k, unit, *options)[0]
        whole = _torch_ops.attend(q, k, unit, *options[:14], 0.0, 0)[0]
        parts.append(torch.where((dropped == 0) & (whole != 0), -whole, whole))
    found = torch.cat(parts, -1)
    if call.cu_q is None:
        return found.transpose(1, 2)
    square = found.new_zeros(len(call.cu_q) - 1, found.shape[1], call.max_q, columns)
    ends = call.cu_q.tolist()
    for batch, (start, stop) in enumerate(zip(ends, ends[1:])):
        square[batch, :, : stop - start] = found[start:stop].transpose(0, 1)
    return square


def _cache_options(call):
    """The options of a call on a cache, as _attend.attend() takes them."""
    return {
        "k_new": unit(call.k_new),
        "v_new": unit(call.v_new),
        "rotary_cos": _float32(call.rotary_cos),
        "rotary_sin": _float32(call.rotary_sin),
        "rotary_interleaved": call.interleaved,
        "seqused_k": call.seqused_k,
        "cache_batch_idx": call.batch_idx,
        "leftpad_k": call.leftpad,
        "block_table": call.block_table,
        "scale": call.softmax_scale,
        "causal": call.causal,
        "window": call.window,
        "softcap": call.softcap,
        "alibi_slopes": _float32(call.alibi_slopes),
        "sinks": _float32(call.sinks),
    }


def _with_cache(call):
    """A cache, into which new keys may go: (out, lse)."""
    options = _cache_options(call)
    with torch.no_grad():
        return _attend.attend(
            unit(call.q),
            call.k,
            call.v,
            return_lse=True,
            _threads_of=_torch_ops._threads,
            **options,
        )


def forward(call):
    """(out, lse, probabilities), the last two None where call.want does not ask."""
    if call.cache:
        out, lse = _with_cache(call)
    else:
        q, k, v = unit(call.q), unit(call.k), unit(call.v)
        options = _options(call)
        out, lse = _torch_ops.attend(q, k, v, *options)
    if call.want < LSE:
        return out, None, None
    with torch.no_grad():
        lse = torch.where(lse == -_INF, _INF, lse)
        if call.want < PROBABILITIES or call.dropout == 0:
            return out, lse, None
        return out, lse, _probabilities(call, q.detach(), k.detach(), options)


def kernel(call):
    """The engine's kernel for this call, and why better ones declined; nothing is computed."""
    if call.cache:
        options = _cache_options(call)
    else:
        options = _torch_ops._named(*_options(call))
    with torch.no_grad():
        q, k, v = unit(call.q.detach()), unit(call.k.detach()), unit(call.v.detach())
        problem, _, _ = _attend._problem(q, k, v, "bshd", options)
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        problem.set("o", *problem.rows(out, "out", call.cu_q is not None)[0])
        return _lib.explain_kernel(problem.values)
