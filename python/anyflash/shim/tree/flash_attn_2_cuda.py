"""The five functions of flash-attn's extension of this name; all arguments by position.

    out, lse, _, _ = fwd(q, k, v, None, None, 0.0, scale, True, -1, -1, 0.0, False, None)

CPU tensors are computed by the engine. On other devices the forward functions use the best
provider that anyflash has there, the backward functions torch's FlashAttention kernels.
Gradients are those of the logsumexp that is passed in, so that parts of an attention over
several processes can be put together by it.
"""

import torch

from anyflash import _torch_ops
from anyflash.flash_attn import flash_attn_func, flash_attn_varlen_func
from anyflash.flash_attn import flash_attn_with_kvcache as _with_kvcache
from anyflash.providers.call import seed, unit

_INF = float("inf")
#: cu_q, cu_k, max_q, max_k, seqused_k, leftpad_k, block_table for sequences that are not packed
_DENSE = (None, None, 0, 0, None, None, None)


def _is_engines(q):
    return q.device.type == "cpu"


def _options(sequences, slopes, dropout, scale, causal, left, right, softcap, drawn=0):
    """The options of anyflash::attend; sequences: as _DENSE."""
    slopes = None if slopes is None else slopes.float().contiguous()
    mask = (float(scale), bool(causal), int(left), int(right), float(softcap))
    return *sequences, slopes, None, *mask, float(dropout), drawn


def _given(out, result):
    return result if out is None else out.copy_(result)


def _forward(q, k, v, out, options):
    result, lse = _torch_ops.attend(unit(q), unit(k), unit(v), *options)
    lse = torch.where(lse == -_INF, _INF, lse)
    state = torch.tensor([options[-1], 0], dtype=torch.int64)
    return [_given(out, result), lse, q.new_empty(0), state]


def _elsewhere(function, args, out, **options):
    """Whether the tensors are on a device that the engine does not support."""
    result, lse, probabilities = function(*args, return_attn_probs=True, **options)
    if probabilities is None:
        probabilities = result.new_empty(0)
    state = torch.empty(2, dtype=torch.int64, device=result.device)
    return [_given(out, result), lse, probabilities, state]


@torch.no_grad()
def fwd(
    q, k, v, out, slopes, dropout, scale, causal, left, right, softcap, return_softmax, gen=None
):
    """[out, lse [B, H, Sq], S_dmask, rng_state] of q [B, Sq, H, D], k, v [B, Sk, G, D]."""
    if not _is_engines(q) or (return_softmax and dropout > 0.0):
        mask = (dropout, scale, causal, (left, right), softcap, slopes)
        return _elsewhere(flash_attn_func, (q, k, v, *mask), out)
    mask = (dropout, scale, causal, left, right, softcap, seed(dropout))
    return _forward(q, k, v, out, _options(_DENSE, slopes, *mask))


@torch.no_grad()
def varlen_fwd(q, k, v, out, cu_q, cu_k, seqused_k, leftpad_k, block_table, slopes, *options):
    """[out, lse [H, total_q], S_dmask, rng_state] of packed q, k, v.

    options: max_q, max_k, dropout, scale, zero_tensors, causal, left, right, softcap,
    return_softmax, generator.
    """
    max_q, max_k, dropout, scale, _, causal, left, right, softcap, *_ = options
    if not _is_engines(q):
        if seqused_k is not None or leftpad_k is not None:
            raise NotImplementedError(f"seqused_k and leftpad_k on {q.device}")
        mask = (dropout, scale, causal, (left, right), softcap, slopes)
        given = (q, k, v, cu_q, cu_k, max_q, max_k, *mask)
        return _elsewhere(flash_attn_varlen_func, given, out, block_table=block_table)
    if block_table is not None:
        if seqused_k is None:
            seqused_k = cu_k.diff().to(torch.int32)
        cu_k = None
    sequences = (cu_q, cu_k, int(max_q), int(max_k), seqused_k, leftpad_k, block_table)
    mask = (dropout, scale, causal, left, right, softcap, seed(dropout))
    return _forward(q, k, v, out, _options(sequences, slopes, *mask))


def _backward_by_torch(tensors, lse, options):
    """torch's own kernel; it has no softcap, no ALiBi, and the random state of its forward."""
    cu_q, cu_k, max_q, max_k, _, _, _, slopes, _, scale, causal, left, right = options[:13]
    softcap, dropout = options[13:15]
    if slopes is not None or softcap > 0.0 or dropout > 0.0:
        raise NotImplementedError(
            f"the backward function with ALiBi, softcap or dropout on {lse.device}; "
            "gradients of flash_attn_func() work"
        )
    if cu_q is None:
        max_q, max_k = tensors[1].shape[1], tensors[2].shape[1]
    state = torch.zeros(2, dtype=torch.uint64, device=lse.device)
    window = {"window_size_left": left, "window_size_right": right}
    options = (lse, cu_q, cu_k, max_q, max_k, 0.0, causal, state, state)
    return torch.ops.aten._flash_attention_backward(*tensors, *options, scale=scale, **window)


def _backward_by_engine(tensors, lse, options, rng_state):
    if options[-2] > 0.0:
        if rng_state is None:
            raise ValueError("rng_state is required with dropout")
        options = (*options[:-1], int(rng_state[0]))
    lse = torch.where(lse == _INF, -_INF, lse).contiguous()
    return torch.ops.anyflash.attend_backward(*tensors, lse, *options)


def _backward(tensors, lse, gradients, options, rng_state):
    tensors = [unit(t) for t in tensors]  # dout, q, k, v, out
    if _is_engines(lse):
        new = _backward_by_engine(tensors, lse, options, rng_state)
    else:
        new = _backward_by_torch(tensors, lse.contiguous(), options)
    new = [_given(given, made) for given, made in zip(gradients, new)]
    delta = (tensors[0].float() * tensors[4].float()).sum(-1)
    return [*new, delta.transpose(-1, -2).contiguous()]


@torch.no_grad()
def bwd(dout, q, k, v, out, lse, dq, dk, dv, slopes, *options):
    """[dq, dk, dv, softmax_d]; dq, dk, dv are written to if they are given.

    options: dropout, scale, causal, left, right, softcap, deterministic, generator, and the
    random state of the forward, which is required with dropout.
    """
    state = options[8] if len(options) > 8 else None
    options = _options(_DENSE, slopes, *options[:6])
    return _backward((dout, q, k, v, out), lse, (dq, dk, dv), options, state)


@torch.no_grad()
def varlen_bwd(dout, q, k, v, out, lse, dq, dk, dv, cu_q, cu_k, slopes, *options):
    """bwd() of packed sequences.

    options: max_q, max_k, dropout, scale, zero_tensors, and from causal on those of bwd().
    """
    max_q, max_k, dropout, scale, _, *mask = options
    state = mask[6] if len(mask) > 6 else None
    sequences = (cu_q, cu_k, int(max_q), int(max_k), None, None, None)
    options = _options(sequences, slopes, dropout, scale, *mask[:4])
    return _backward((dout, q, k, v, out), lse, (dq, dk, dv), options, state)


def fwd_kvcache(
    q, k_cache, v_cache, k, v, used, cos, sin, index, leftpad, table, slopes, out, *more
):
    """[out, lse] of flash_attn_with_kvcache().

    more: scale, causal, left, right, softcap, rotary_interleaved, num_splits.
    """
    scale, causal, left, right, softcap, interleaved, num_splits = more
    cache = (q, k_cache, v_cache, k, v, cos, sin, used, index, leftpad, table)
    mask = (scale, causal, (left, right), softcap)
    result, lse = _with_kvcache(*cache, *mask, interleaved, slopes, num_splits, True)
    return [_given(out, result), lse]
