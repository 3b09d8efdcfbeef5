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
#: cu_q, cu_k, max_q, max_k, seqused_k, leftpad_k, block_table of sequences that are not packed
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
    """On a device that the engine does not compute on."""
    result, lse, probabilities = function(*args, return_attn_probs=True, **options)
    if probabilities is None:
        probabilities = result.new_empty(0)
    state = torch.empty(2, dtype=torch.int64, device=result.device)
    return [_given(out, result), lse, probabilities, state]


@torch.no_grad()
def fwd(
    q,
    k,
    v,
    out_,
    alibi_slopes_,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen_=None,
):
    """[out, lse [B, H, Sq], S_dmask, rng_state] of q [B, Sq, H, D], k, v [B, Sk, G, D]."""
    window = (window_size_left, window_size_right)
    if not _is_engines(q) or (return_softmax and p_dropout > 0.0):
        mask = (p_dropout, softmax_scale, is_causal, window, softcap, alibi_slopes_)
        return _elsewhere(flash_attn_func, (q, k, v, *mask), out_)
    mask = (p_dropout, softmax_scale, is_causal, *window, softcap, seed(p_dropout))
    return _forward(q, k, v, out_, _options(_DENSE, alibi_slopes_, *mask))


@torch.no_grad()
def varlen_fwd(
    q,
    k,
    v,
    out_,
    cu_seqlens_q,
    cu_seqlens_k,
    seqused_k,
    leftpad_k_,
    block_table_,
    alibi_slopes_,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen_=None,
):
    """[out, lse [H, total_q], S_dmask, rng_state] of packed q, k, v."""
    window = (window_size_left, window_size_right)
    if not _is_engines(q):
        if seqused_k is not None or leftpad_k_ is not None:
            raise NotImplementedError(f"seqused_k and leftpad_k on {q.device}")
        lengths = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
        mask = (p_dropout, softmax_scale, is_causal, window, softcap, alibi_slopes_)
        given = (q, k, v, *lengths, *mask)
        return _elsewhere(flash_attn_varlen_func, given, out_, block_table=block_table_)
    if block_table_ is not None:
        if seqused_k is None:
            seqused_k = cu_seqlens_k.diff().to(torch.int32)
        cu_seqlens_k = None
    lengths = (cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    sequences = (*lengths, seqused_k, leftpad_k_, block_table_)
    mask = (p_dropout, softmax_scale, is_causal, *window, softcap, seed(p_dropout))
    return _forward(q, k, v, out_, _options(sequences, alibi_slopes_, *mask))


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
    return torch.ops.aten._flash_attention_backward(
        *tensors,
        lse,
        cu_q,
        cu_k,
        max_q,
        max_k,
        0.0,
        causal,
        state,
        state,
        scale=scale,
        window_size_left=left,
        window_size_right=right,
    )


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
def bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq_,
    dk_,
    dv_,
    alibi_slopes_,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen_=None,
    rng_state=None,
):
    """[dq, dk, dv, softmax_d]; dq_, dk_, dv_ are written where they are given."""
    mask = (is_causal, window_size_left, window_size_right, softcap)
    options = _options(_DENSE, alibi_slopes_, p_dropout, softmax_scale, *mask)
    tensors, given = (dout, q, k, v, out), (dq_, dk_, dv_)
    return _backward(tensors, softmax_lse, given, options, rng_state)


@torch.no_grad()
def varlen_bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq_,
    dk_,
    dv_,
    cu_seqlens_q,
    cu_seqlens_k,
    alibi_slopes_,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen_=None,
    rng_state=None,
):
    """bwd() of packed sequences."""
    lengths = (cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    mask = (is_causal, window_size_left, window_size_right, softcap)
    sequences = (*lengths, None, None, None)
    options = _options(sequences, alibi_slopes_, p_dropout, softmax_scale, *mask)
    tensors, given = (dout, q, k, v, out), (dq_, dk_, dv_)
    return _backward(tensors, softmax_lse, given, options, rng_state)


def fwd_kvcache(
    q,
    kcache,
    vcache,
    k_,
    v_,
    seqlens_k_,
    rotary_cos_,
    rotary_sin_,
    cache_batch_idx_,
    leftpad_k_,
    block_table_,
    alibi_slopes_,
    out_,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    is_rotary_interleaved,
    num_splits,
):
    """[out, lse] of flash_attn_with_kvcache()."""
    out, lse = _with_kvcache(
        q,
        kcache,
        vcache,
        k_,
        v_,
        rotary_cos_,
        rotary_sin_,
        seqlens_k_,
        cache_batch_idx_,
        leftpad_k_,
        block_table_,
        softmax_scale,
        is_causal,
        (window_size_left, window_size_right),
        softcap,
        is_rotary_interleaved,
        alibi_slopes_,
        num_splits,
        True,
    )
    return [_given(out_, out), lse]
