"""The functions of FlashAttention-3 (flash_attn_interface), computed by the best provider.

    from anyflash.flash_attn_3 import flash_attn_func
    out = flash_attn_func(q, k, v, causal=True)

Names, arguments and results are those of hopper/flash_attn_interface.py of August 2026: a call
returns out alone, and (out, logsumexp) with return_attn_probs or return_softmax_lse; releases
before 2025-08 always returned both. Each call goes to a provider like those of
anyflash.flash_attn, with the same trial and the same reasons. Hints of speed (num_splits,
pack_gqa, sm_margin, scheduler_metadata) are accepted and have no effect on the result. What no
provider has raises NotImplementedError that names the argument: qv, FP8 (the three descale),
attention_chunk, seqused_q and seqused_k of packed sequences, packed queries over a cache.

Letters in shapes: B batch, H query heads, G key heads, Sq and Sk lengths, D head size.
"""

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from .flash_attn import Result
from .flash_attn import flash_attn_with_kvcache as _with_kvcache
from .providers import attend, prepare
from .providers.call import LSE, OUT, Call

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]

prepare()


def _refuse(**options):
    """Raises for an argument that is given; attention_chunk is given unless it is 0."""
    for name, value in options.items():
        if value is not None and not (name == "attention_chunk" and value == 0):
            raise NotImplementedError(
                f"{name}: FlashAttention-3 alone computes this; no provider of anyflash does"
            )


def _call(q, k, v, softmax_scale, causal, window_size, softcap, deterministic, return_lse):
    """A call as the providers take it. FlashAttention-3 has no dropout and no ALiBi."""
    mask = (softmax_scale, causal, tuple(window_size), softcap, None)
    return Call(q, k, v, 0.0, *mask, deterministic, LSE if return_lse else OUT)


def _result(call):
    out, lse, _ = attend(call)
    return out if call.want == OUT else (out, lse)


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor,
    softmax_scale: Optional[float] = None, causal: bool = False, qv: Optional[Tensor] = None,
    q_descale: Optional[Tensor] = None, k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
    num_splits: int = 1, pack_gqa: Optional[bool] = None, deterministic: bool = False,
    sm_margin: int = 0, return_attn_probs: bool = False,
) -> Result:
    """Attention of q [B, Sq, H, D] over k, v [B, Sk, G, D]: out [B, Sq, H, D].

    >>> out = flash_attn_func(q, k, v, causal=True)
    """
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    _refuse(attention_chunk=attention_chunk)
    options = (softmax_scale, causal, window_size, softcap, deterministic, return_attn_probs)
    return _result(_call(q, k, v, *options))


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    softmax_scale: Optional[float] = None, causal: bool = False,
    q_descale: Optional[Tensor] = None, k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
    deterministic: bool = False, num_heads_q: Optional[int] = None, sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Result:
    """flash_attn_func() of the three parts of qkv [B, S, 3, H, D].

    >>> out = flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), causal=True)

    With num_heads_q = H, qkv is [B, S, H + 2 G, D]: the query heads, then those of k and v.
    """
    if num_heads_q is None:
        if qkv.dim() != 5 or qkv.shape[2] != 3:
            raise ValueError(f"qkv: shape {tuple(qkv.shape)}, expected (B, S, 3, H, D)")
        q, k, v = qkv.unbind(2)
    else:
        heads_k, rest = divmod(qkv.shape[2] - num_heads_q, 2)
        if qkv.dim() != 4 or rest != 0 or heads_k <= 0:
            raise ValueError(f"qkv: shape {tuple(qkv.shape)}, expected (B, S, H + 2 G, D)")
        q, k, v = qkv.split((num_heads_q, heads_k, heads_k), 2)
    _refuse(q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    _refuse(attention_chunk=attention_chunk)
    options = (softmax_scale, causal, window_size, softcap, deterministic, return_attn_probs)
    return _result(_call(q, k, v, *options))


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor,
    cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
    seqused_q: Optional[Tensor] = None, seqused_k: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None, causal: bool = False, qv: Optional[Tensor] = None,
    q_descale: Optional[Tensor] = None, k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
    num_splits: int = 1, pack_gqa: Optional[bool] = None, deterministic: bool = False,
    sm_margin: int = 0, return_attn_probs: bool = False,
) -> Result:
    """Attention of packed sequences: q [total_q, H, D] over k, v [total_k, G, D].

    >>> starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    >>> out = flash_attn_varlen_func(q, k, v, starts, starts, 7, 7, causal=True)
    """
    _refuse(seqused_q=seqused_q, seqused_k=seqused_k, qv=qv, q_descale=q_descale)
    _refuse(k_descale=k_descale, v_descale=v_descale, attention_chunk=attention_chunk)
    options = (softmax_scale, causal, window_size, softcap, deterministic, return_attn_probs)
    call = _call(q, k, v, *options)
    call.cu_q, call.cu_k = cu_seqlens_q, cu_seqlens_k
    call.max_q, call.max_k = int(max_seqlen_q), int(max_seqlen_k)
    return _result(call)


def flash_attn_with_kvcache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor,
    k: Optional[Tensor] = None, v: Optional[Tensor] = None, qv: Optional[Tensor] = None,
    rotary_cos: Optional[Tensor] = None, rotary_sin: Optional[Tensor] = None,
    cache_seqlens: Optional[Union[int, Tensor]] = None,
    cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    cu_seqlens_q: Optional[Tensor] = None, cu_seqlens_k_new: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None, rotary_seqlens: Optional[Tensor] = None,
    q_descale: Optional[Tensor] = None, k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0, softcap: float = 0.0,
    rotary_interleaved: bool = True, scheduler_metadata: Optional[Tensor] = None,
    num_splits: int = 0, pack_gqa: Optional[bool] = None, sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> Result:
    """Attention of q [B, Sq, H, D] over a cache, after k, v have been written into it.

    >>> out = flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=17, causal=True)

    As anyflash.flash_attn_with_kvcache(); page_table is its block_table.
    """
    _refuse(qv=qv, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k_new=cu_seqlens_k_new)
    _refuse(rotary_seqlens=rotary_seqlens, q_descale=q_descale, k_descale=k_descale)
    _refuse(v_descale=v_descale, attention_chunk=attention_chunk)
    tensors = (q, k_cache, v_cache, k, v, rotary_cos, rotary_sin)
    cache = (cache_seqlens, cache_batch_idx, cache_leftpad, page_table)
    mask = (softmax_scale, causal, tuple(window_size), softcap)
    return _with_kvcache(
        *tensors, *cache, *mask, rotary_interleaved, None, num_splits, return_softmax_lse
    )


def flash_attn_combine(
    out_partial: Tensor,
    lse_partial: Tensor,
    out: Optional[Tensor] = None,
    out_dtype: Optional[torch.dtype] = None,
) -> Tuple[Tensor, Tensor]:
    """(out, logsumexp) of an attention over keys that were split.

    >>> out, lse = flash_attn_combine(torch.stack(outs), torch.stack(lses))

    out_partial: [splits, B, S, H, D], lse_partial: float32 [splits, B, S, H]. A split in which
    a row sees no key has an infinite logsumexp. The result has the type out_dtype, else that of
    out_partial.
    """
    parts = lse_partial.float()
    parts = parts.where(parts != float("inf"), -float("inf"))
    lse = torch.logsumexp(parts, 0)
    weight = torch.exp(parts - lse.nan_to_num(neginf=0.0)).unsqueeze(-1)
    found = (out_partial.float() * weight).sum(0).to(out_dtype or out_partial.dtype)
    return (found if out is None else out.copy_(found)), lse


def get_scheduler_metadata(
    batch_size: int, max_seqlen_q: int, max_seqlen_k: int, num_heads_q: int, num_heads_kv: int,
    headdim: int, cache_seqlens: Tensor, qkv_dtype: torch.dtype = torch.bfloat16,
    headdim_v: Optional[int] = None,
    cu_seqlens_q: Optional[Tensor] = None, cu_seqlens_k_new: Optional[Tensor] = None,
    cache_leftpad: Optional[Tensor] = None,
    page_size: Optional[int] = None, max_seqlen_k_new: int = 0, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), attention_chunk: int = 0,
    has_softcap: bool = False, num_splits: int = 0, pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
) -> Tensor:
    """An empty tensor, which flash_attn_with_kvcache() takes as scheduler_metadata: the plan of
    a kernel that no provider has.

    >>> plan = get_scheduler_metadata(2, 1, 64, 8, 8, 64, torch.tensor([5, 9]))
    """
    return cache_seqlens.new_empty(0)
