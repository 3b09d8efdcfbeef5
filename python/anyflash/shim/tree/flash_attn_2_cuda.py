"""The five functions of flash-attn's extension of this name, by position as it takes them.

On CPU tensors the engine computes. On other devices forward functions go to the best
provider that anyflash has there, backward functions to torch's FlashAttention kernels.
Gradients are of the logsumexp that is given, so that parts of an attention over several
processes can be put together by it.
"""

import torch

from anyflash import _torch_ops
from anyflash.flash_attn import flash_attn_func, flash_attn_varlen_func
from anyflash.flash_attn import flash_attn_with_kvcache as _with_kvcache

_INF = float("inf")


def _is_engines(q):
    return q.device.type == "cpu"


def _seed(p_dropout):
    return int(torch.empty((), dtype=torch.int64).random_()) if p_dropout > 0.0 else 0


def _options(slopes, dropout, scale, causal, left, right, softcap, seed, packed=()):
    """The engine's options; packed: cu_q, cu_k, max_q, max_k, seqused, leftpad, table."""
    slopes = None if slopes is None else slopes.float().contiguous()
    packed = packed or (None, None, 0, 0, None, None, None)
    return (
        *packed,
        slopes,
        None,
        float(scale),
        bool(causal),
        int(left),
        int(right),
        float(softcap),
        float(dropout),
        seed,
    )


def _unit(tensor):
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _given(out, result):
    return result if out is None else out.copy_(result)


def _forward(q, k, v, out, options, return_softmax):
    result, lse = _torch_ops.attend(_unit(q), _unit(k), _unit(v), *options)
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
        return _elsewhere(
            flash_attn_func,
            (q, k, v, p_dropout, softmax_scale, is_causal, window, softcap, alibi_slopes_),
            out_,
        )
    options = _options(
        alibi_slopes_, p_dropout, softmax_scale, is_causal, *window, softcap, _seed(p_dropout)
    )
    return _forward(q, k, v, out_, options, return_softmax)


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
        return _elsewhere(
            flash_attn_varlen_func,
            (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
            + (p_dropout, softmax_scale, is_causal, window, softcap, alibi_slopes_),
            out_,
            block_table=block_table_,
        )
    cu_k = cu_seqlens_k
    if block_table_ is not None:
        if seqused_k is None:
            seqused_k = (cu_k[1:] - cu_k[:-1]).to(torch.int32)
        cu_k = None
    packed = (cu_seqlens_q, cu_k, int(max_seqlen_q), int(max_seqlen_k))
    options = _options(
        alibi_slopes_,
        p_dropout,
        softmax_scale,
        is_causal,
        *window,
        softcap,
        _seed(p_dropout),
        (*packed, seqused_k, leftpad_k_, block_table_),
    )
    return _forward(q, k, v, out_, options, return_softmax)


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
            raise ValueError("rng_state: is needed with dropout")
        options = (*options[:-1], int(rng_state[0]))
    lse = torch.where(lse == _INF, -_INF, lse).contiguous()
    return torch.ops.anyflash.attend_backward(*tensors, lse, *options)


def _backward(dout, q, k, v, out, lse, gradients, options, rng_state):
    tensors = [_unit(t) for t in (dout, q, k, v, out)]
    if _is_engines(q):
        new = _backward_by_engine(tensors, lse, options, rng_state)
    else:
        new = _backward_by_torch(tensors, lse.contiguous(), options)
    new = [_given(given, made) for given, made in zip(gradients, new)]
    delta = (dout.float() * out.float()).sum(-1).transpose(-1, -2).contiguous()
    return [*new, delta]


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
    window = (window_size_left, window_size_right)
    options = _options(
        alibi_slopes_, p_dropout, softmax_scale, is_causal, *window, softcap, 0
    )
    given = (dq_, dk_, dv_)
    return _backward(dout, q, k, v, out, softmax_lse, given, options, rng_state)


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
    packed = (cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    options = _options(
        alibi_slopes_,
        p_dropout,
        softmax_scale,
        is_causal,
        window_size_left,
        window_size_right,
        softcap,
        0,
        (*packed, None, None, None),
    )
    given = (dq_, dk_, dv_)
    return _backward(dout, q, k, v, out, softmax_lse, given, options, rng_state)


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
