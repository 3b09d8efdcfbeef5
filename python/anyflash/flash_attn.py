"""The functions of flash_attn, with its signatures, from the best provider that is there.

Layouts, defaults, alignment and the logsumexp (+inf for a row that sees no key) are those
of flash-attn 2.8.3; docstrings say what differs. CPU tensors are computed by the engine.
"""

import math

import torch

from . import _attend, _torch_ops

_INF = float("inf")


def _unit(tensor):
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def _check_cpu(*tensors):
    for tensor in tensors:
        if tensor is not None and tensor.device.type != "cpu":
            raise NotImplementedError(
                f"tensors on {tensor.device}: only CPU tensors are computed by this version"
            )


def _slopes(alibi_slopes):
    return None if alibi_slopes is None else alibi_slopes.to(torch.float32).contiguous()


def _seed(dropout_p):
    """From torch's generator, so that torch.manual_seed() decides."""
    return int(torch.empty((), dtype=torch.int64).random_()) if dropout_p > 0 else 0


def _options(
    q,
    dropout_p,
    softmax_scale,
    causal,
    window_size,
    softcap,
    alibi_slopes,
    cu_q=None,
    cu_k=None,
    max_q=0,
    max_k=0,
    block_table=None,
):
    scale = softmax_scale if softmax_scale is not None else 1.0 / math.sqrt(q.shape[-1])
    return (
        cu_q,
        cu_k,
        max_q,
        max_k,
        None,
        None,
        block_table,
        _slopes(alibi_slopes),
        None,
        float(scale),
        bool(causal),
        int(window_size[0]),
        int(window_size[1]),
        float(softcap),
        float(dropout_p),
        _seed(dropout_p),
    )


def _probabilities(q, k, options):
    """S_dmask: the probabilities, those that dropout took with a negative sign.

    As flash-attn's, for tests and debugging: by two more attentions over unit vectors.
    """
    if options[0] is not None:
        raise NotImplementedError("return_attn_probs with dropout and packed sequences")
    rows, width = k.shape[1], 256
    parts = []
    for start in range(0, rows, width):
        unit = torch.zeros(
            k.shape[0], rows, k.shape[2], min(width, rows - start), dtype=k.dtype
        )
        unit[:, start : start + width] = torch.eye(unit.shape[3], dtype=k.dtype)[
            None, :, None
        ]
        dropped = _torch_ops.attend(q, k, unit, *options)[0]
        whole = _torch_ops.attend(q, k, unit, *options[:14], 0.0, 0)[0]
        parts.append(torch.where((dropped == 0) & (whole != 0), -whole, whole))
    return torch.cat(parts, -1).transpose(1, 2)


def _call(q, k, v, options, return_attn_probs):
    _check_cpu(q, k, v)
    q, k, v = _unit(q), _unit(k), _unit(v)
    out, lse = _torch_ops.attend(q, k, v, *options)
    if not return_attn_probs:
        return out
    with torch.no_grad():
        lse = torch.where(lse == -_INF, _INF, lse)
        probabilities = None
        if options[14] > 0:
            probabilities = _probabilities(q.detach(), k.detach(), options)
    return out, lse, probabilities


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """Attention of q [B, Sq, H, D] over k, v [B, Sk, G, D]; H is a multiple of G.

    causal and window_size=(left, right) are aligned to the bottom right corner; -1 is no
    limit. Returns out [B, Sq, H, D], or (out, lse [B, H, Sq] float32, S_dmask or None) with
    return_attn_probs. Gradients are deterministic always. float32 is taken too.
    """
    options = _options(
        q, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes
    )
    return _call(q, k, v, options, return_attn_probs)


def flash_attn_kvpacked_func(
    q,
    kv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_func() with k, v = kv[:, :, 0], kv[:, :, 1]; kv is [B, Sk, 2, G, D]."""
    return flash_attn_func(
        q,
        kv[:, :, 0],
        kv[:, :, 1],
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_qkvpacked_func(
    qkv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_func() on the three parts of qkv [B, S, 3, H, D]."""
    return flash_attn_func(
        qkv[:, :, 0],
        qkv[:, :, 1],
        qkv[:, :, 2],
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    """Attention of packed sequences: q [total_q, H, D], k, v [total_k, G, D].

    cu_seqlens_q, cu_seqlens_k: int32 [B + 1], where each sequence begins. With block_table
    int32 [B, pages] k, v are pages [pages, page size, G, D] and cu_seqlens_k gives the
    lengths. Returns out [total_q, H, D], or with return_attn_probs also lse [H, total_q].
    """
    cu_k, seqused = cu_seqlens_k, None
    if block_table is not None:
        cu_k, seqused = None, (cu_seqlens_k[1:] - cu_seqlens_k[:-1]).to(torch.int32)
    options = list(
        _options(
            q,
            dropout_p,
            softmax_scale,
            causal,
            window_size,
            softcap,
            alibi_slopes,
            cu_seqlens_q,
            cu_k,
            int(max_seqlen_q),
            int(max_seqlen_k),
            block_table,
        )
    )
    options[4] = seqused
    return _call(q, k, v, tuple(options), return_attn_probs)


def flash_attn_varlen_kvpacked_func(
    q,
    kv,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_varlen_func() with k, v = kv[:, 0], kv[:, 1]; kv is [total_k, 2, G, D]."""
    return flash_attn_varlen_func(
        q,
        kv[:, 0],
        kv[:, 1],
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv,
    cu_seqlens,
    max_seqlen,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_varlen_func() on the three parts of qkv [total, 3, H, D]."""
    return flash_attn_varlen_func(
        qkv[:, 0],
        qkv[:, 1],
        qkv[:, 2],
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
):
    """Attention of q [B, Sq, H, D] over a cache, into which k, v are appended in place.

    k_cache, v_cache: [B, Sk, G, D], or pages [pages, page size, G, D] with block_table int32
    [B, pages]; cache_seqlens: int or int32 [B], the keys that are in the cache; rotary_cos,
    rotary_sin: [rows, dim / 2], applied to q and k. No gradient. Returns out, or
    (out, lse [B, H, Sq]) with return_softmax_lse.
    """
    _check_cpu(q, k_cache, v_cache, k, v)
    batch = q.shape[0]
    with torch.no_grad():
        if cache_seqlens is None:
            if k is not None:
                raise ValueError("cache_seqlens: is needed to append k and v")
            rows = k_cache.shape[1] * (block_table.shape[1] if block_table is not None else 1)
            cache_seqlens = rows
        if not torch.is_tensor(cache_seqlens):
            cache_seqlens = torch.full((batch,), int(cache_seqlens), dtype=torch.int32)
        if rotary_cos is not None:
            rotary_cos = rotary_cos.to(torch.float32).contiguous()
            rotary_sin = rotary_sin.to(torch.float32).contiguous()
        out, lse = _attend.attend(
            _unit(q.detach()),
            k_cache.detach(),
            v_cache.detach(),
            return_lse=True,
            k_new=_unit(k),
            v_new=_unit(v),
            rotary_cos=rotary_cos,
            rotary_sin=rotary_sin,
            rotary_interleaved=rotary_interleaved,
            seqused_k=cache_seqlens,
            cache_batch_idx=cache_batch_idx,
            leftpad_k=cache_leftpad,
            block_table=block_table,
            scale=softmax_scale,
            causal=causal,
            window=window_size,
            softcap=softcap,
            alibi_slopes=_slopes(alibi_slopes),
        )
        if return_softmax_lse:
            return out, torch.where(lse == -_INF, _INF, lse)
    return out
