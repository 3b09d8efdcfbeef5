"""The functions of flash_attn, with its signatures, computed by the best provider.

    from anyflash import flash_attn_func
    out = flash_attn_func(q, k, v, causal=True)

Layouts, defaults, alignment and the logsumexp (+inf for a row that sees no key) are those of
flash-attn 2.8.3. The provider is chosen for each call by device, element type and options;
anyflash.explain() says which one, and why. In addition to flash-attn: CPU tensors, float32, any
head size, a value size of its own, any page size; and float64, which torch computes:
anyflash.attend() is the engine alone and refuses it. As in flash-attn, autocast has no effect:
the result has the type of q, and q, k, v must have the same type.

Letters in shapes: B batch, H query heads, G key heads (H is a multiple of G), Sq and Sk
lengths, D head size.

Arguments of several functions:
  dropout_p: probability of dropping a weight; the pattern depends on torch's seed
  softmax_scale: factor of the scores; None is 1 / sqrt(D)
  causal: a query sees no later key; aligned to the bottom right corner of the scores
  window_size: (left, right), how many keys a query sees before and after its own position, with
    the same alignment; -1 is no limit
  softcap: cap * tanh(score / cap) in place of a score; 0 is none
  alibi_slopes: float32 [H] or [B, H]; slope * distance is subtracted from a score
  deterministic: gradients with the same bits in each run; some providers always have them
  return_attn_probs: also return the logsumexp of the scores, float32 [B, H, Sq] or, of packed
    sequences, [H, total]; and the probabilities [B, H, Sq, Sk], negative where dropout removed
    them (an empty tensor without dropout)

All raise TypeError or ValueError that names a wrong argument, and NotImplementedError if only
one provider may be used and declines.
"""

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from .providers import attend, prepare
from .providers.call import LSE, OUT, PROBABILITIES, Call

#: The output; or a tuple, which type checkers need not tell from it.
Result = Union[Tensor, Any]

prepare()


def _count(number):
    """A length as int; as in flash-attn it may be a tensor of one element."""
    return number if isinstance(number, (int, torch.SymInt)) else int(number)


def _result(call):
    out, lse, probabilities = attend(call)
    if call.want == OUT:
        return out
    return out, lse, out.new_empty(0) if probabilities is None else probabilities


def _parts(name, packed, rank, count):
    """Splits `count` tensors (q, k, v or k, v) along the third last dimension."""
    if not isinstance(packed, Tensor):
        raise TypeError(f"{name}: must be a torch tensor, not {type(packed).__name__}")
    if packed.dim() != rank or packed.shape[-3] != count:
        wanted = "B, S, " if rank == 5 else "total, "
        raise ValueError(
            f"{name}: shape {tuple(packed.shape)}, expected ({wanted}{count}, heads, head size)"
        )
    return packed.unbind(-3)


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """Attention of q [B, Sq, H, D] over k, v [B, Sk, G, D]: out [B, Sq, H, D].

    >>> out = flash_attn_func(q, k, v, causal=True)

    With return_attn_probs (out, lse, probabilities). The module describes the arguments.
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    want = PROBABILITIES if return_attn_probs else OUT
    return _result(Call(q, k, v, dropout_p, *mask, deterministic, want))


def flash_attn_kvpacked_func(
    q: Tensor, kv: Tensor,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """flash_attn_func() with k, v = kv[:, :, 0], kv[:, :, 1]; kv is [B, Sk, 2, G, D].

    >>> out = flash_attn_kvpacked_func(q, torch.stack((k, v), 2), causal=True)
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    options = (dropout_p, *mask, deterministic, return_attn_probs)
    return flash_attn_func(q, *_parts("kv", kv, 5, 2), *options)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """flash_attn_func() of the three parts of qkv [B, S, 3, H, D].

    >>> out = flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), causal=True)
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    options = (dropout_p, *mask, deterministic, return_attn_probs)
    return flash_attn_func(*_parts("qkv", qkv, 5, 3), *options)


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor,
    cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False, block_table: Optional[Tensor] = None,
) -> Result:
    """Attention of packed sequences: q [total_q, H, D], k, v [total_k, G, D].

    >>> starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    >>> out = flash_attn_varlen_func(q, k, v, starts, starts, 7, 7, causal=True)

    cu_seqlens_q, cu_seqlens_k: int32 [B + 1], where each sequence begins; max_seqlen_q,
    max_seqlen_k: the longest length. With block_table int32 [B, pages] k, v are pages [pages,
    page size, G, D], and cu_seqlens_k gives the lengths. Returns out [total_q, H, D].
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    want = PROBABILITIES if return_attn_probs else OUT
    call = Call(q, k, v, dropout_p, *mask, deterministic, want)
    call.cu_q, call.cu_k = cu_seqlens_q, cu_seqlens_k
    call.max_q, call.max_k = _count(max_seqlen_q), _count(max_seqlen_k)
    if block_table is not None:
        call.block_table, call.cu_k = block_table, None
        call.seqused_k = (cu_seqlens_k[1:] - cu_seqlens_k[:-1]).to(torch.int32)
    return _result(call)


def flash_attn_varlen_kvpacked_func(
    q: Tensor, kv: Tensor,
    cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """flash_attn_varlen_func() with k, v = kv[:, 0], kv[:, 1]; kv is [total_k, 2, G, D].

    >>> out = flash_attn_varlen_kvpacked_func(q, kv, starts, starts, 7, 7)
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    options = (dropout_p, *mask, deterministic, return_attn_probs)
    lengths = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return flash_attn_varlen_func(q, *_parts("kv", kv, 4, 2), *lengths, *options)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Result:
    """flash_attn_varlen_func() of the three parts of qkv [total, 3, H, D].

    >>> out = flash_attn_varlen_qkvpacked_func(qkv, starts, 7)
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    options = (dropout_p, *mask, deterministic, return_attn_probs)
    lengths = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    return flash_attn_varlen_func(*_parts("qkv", qkv, 4, 3), *lengths, *options)


def flash_attn_with_kvcache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor,
    k: Optional[Tensor] = None, v: Optional[Tensor] = None,
    rotary_cos: Optional[Tensor] = None, rotary_sin: Optional[Tensor] = None,
    cache_seqlens: Optional[Union[int, Tensor]] = None,
    cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None,
    num_splits: int = 0, return_softmax_lse: bool = False,
) -> Result:
    """Attention of q [B, Sq, H, D] over a cache, after k, v have been written into it.

    >>> out = flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=17, causal=True)

    k_cache, v_cache: [rows of B, Sk, G, D], or pages [pages, page size, G, D] with block_table
    int32 [B, pages]. k, v: [B, Snew, G, D], appended to the keys in the cache. cache_seqlens:
    int or int32 [B], the number of keys in the cache; cache_batch_idx: int32 [B], the cache's
    row of each sequence; cache_leftpad: int32 [B], where its keys begin. rotary_cos,
    rotary_sin: [rows, dim / 2], by which k is rotated, and q: with causal or a window at
    positions from cache_seqlens on, else all at cache_seqlens. num_splits: a hint. There is no
    gradient. Returns out, or (out, lse [B, H, Sq]) with return_softmax_lse.
    """
    mask = (softmax_scale, causal, window_size, softcap, alibi_slopes)
    want = LSE if return_softmax_lse else OUT
    call = Call(q, k_cache, v_cache, 0.0, *mask, False, want)
    call.cache = True
    call.k_new, call.v_new = k, v
    call.rotary_cos, call.rotary_sin = rotary_cos, rotary_sin
    call.interleaved, call.num_splits = rotary_interleaved, num_splits
    call.batch_idx, call.leftpad, call.block_table = cache_batch_idx, cache_leftpad, block_table
    if cache_seqlens is not None and not isinstance(cache_seqlens, Tensor):
        cache_seqlens = torch.full(
            (q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device
        )
    call.seqused_k = cache_seqlens
    if torch.is_grad_enabled():
        with torch.no_grad():
            out, lse, _ = attend(call)
    else:  # no_grad() would take a microsecond
        out, lse, _ = attend(call)
    return (out, lse) if return_softmax_lse else out
