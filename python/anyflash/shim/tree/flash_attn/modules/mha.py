"""Multi-head attention as modules, with rotary embedding, ALiBi and KV caches.

    y = MHA(512, num_heads=8, causal=True, use_flash_attn=True)(x)      # x [B, S, 512]

Letters: B batch, S length, H query heads, G key heads, D head size, E = H * D.
"""

from functools import partial

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from flash_attn import (
    _left_out,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)
from flash_attn.layers.rotary import RotaryEmbedding

_HIDDEN = -10000.0  # in place of the score of a key that a query does not see


def get_alibi_slopes(nheads):
    """The slopes of ALiBi as a list: 2 ** (-8 i / p) for the p heads up to a power of 2, and
    for the rest those of 2 p heads with i = 1, 3, 5, ..."""
    p = 1 << (nheads.bit_length() - 1)
    first = [2.0 ** (-8.0 * i / p) for i in range(1, p + 1)]
    return first + [2.0 ** (-4.0 * i / p) for i in range(1, 2 * (nheads - p), 2)]


# --- attention without weights


class _Flash(nn.Module):
    def __init__(self, causal, scale, dropout, window_size, alibi_slopes, deterministic):
        super().__init__()
        self.causal, self.softmax_scale = causal, scale
        self.drop = nn.Dropout(dropout)
        self.register_buffer("alibi_slopes", alibi_slopes, persistent=False)
        self.window_size, self.deterministic = window_size, deterministic

    def _options(self, causal):
        slopes = self.alibi_slopes
        return {
            "dropout_p": self.drop.p if self.training else 0.0,
            "softmax_scale": self.softmax_scale,
            "causal": self.causal if causal is None else causal,
            "window_size": self.window_size,
            "alibi_slopes": None if slopes is None else slopes.float(),
            "deterministic": self.deterministic,
        }


class FlashSelfAttention(_Flash):
    """Attention of qkv [B, S, 3, H, D], or of [total, 3, H, D] with cu_seqlens int32 [B + 1]
    and max_seqlen."""

    def __init__(
        self, causal=False, softmax_scale=None, attention_dropout=0.0,
        window_size=(-1, -1), alibi_slopes=None, deterministic=False,
    ):
        options = (window_size, alibi_slopes, deterministic)
        super().__init__(causal, softmax_scale, attention_dropout, *options)

    def forward(self, qkv, causal=None, cu_seqlens=None, max_seqlen=None):
        options = self._options(causal)
        if cu_seqlens is None:
            return flash_attn_qkvpacked_func(qkv, **options)
        return flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, **options)


class FlashCrossAttention(_Flash):
    """Attention of q [B, Sq, H, D] over kv [B, Sk, 2, G, D], or of packed rows with
    cu_seqlens, max_seqlen of q, and cu_seqlens_k, max_seqlen_k."""

    def __init__(
        self, causal=False, softmax_scale=None, attention_dropout=0.0,
        alibi_slopes=None, window_size=(-1, -1), deterministic=False,
    ):
        options = (window_size, alibi_slopes, deterministic)
        super().__init__(causal, softmax_scale, attention_dropout, *options)

    def forward(
        self, q, kv, causal=None,
        cu_seqlens=None, max_seqlen=None, cu_seqlens_k=None, max_seqlen_k=None,
    ):
        options = self._options(causal)
        if cu_seqlens is None:
            return flash_attn_kvpacked_func(q, kv, **options)
        lengths = (cu_seqlens, cu_seqlens_k, max_seqlen, max_seqlen_k)
        return flash_attn_varlen_kvpacked_func(q, kv, *lengths, **options)


class _Plain(nn.Module):
    """Attention by matrix products, for any type, device and padding mask."""

    def __init__(self, causal=False, softmax_scale=None, attention_dropout=0.0):
        super().__init__()
        self.causal, self.softmax_scale = causal, softmax_scale
        self.drop = nn.Dropout(attention_dropout)

    def _attend(self, q, k, v, causal, key_padding_mask, aligned_to_end):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, H, S, D]
        scores = q @ k.transpose(2, 3) * (self.softmax_scale or q.shape[3] ** -0.5)
        rows, keys = scores.shape[2:]
        key, row = (torch.arange(count, device=q.device) for count in (keys, rows))
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask[:, None, None], _HIDDEN)
            keys = key_padding_mask.sum(1)[:, None, None, None]
        if self.causal if causal is None else causal:
            last_seen = row[:, None] + (keys - rows if aligned_to_end else 0)
            scores = scores.masked_fill(key > last_seen, _HIDDEN)
        weights = self.drop(scores.softmax(-1, dtype=v.dtype))
        return (weights @ v).transpose(1, 2)


class SelfAttention(_Plain):
    """Of qkv [B, S, 3, H, D]; key_padding_mask [B, S], True is kept."""

    def forward(self, qkv, causal=None, key_padding_mask=None):
        return self._attend(*qkv.unbind(2), causal, key_padding_mask, False)


class CrossAttention(_Plain):
    """Of q [B, Sq, H, D] and kv [B, Sk, 2, G, D]; causal ends with the last key kept."""

    def forward(self, q, kv, causal=None, key_padding_mask=None):
        if kv.shape[3] != q.shape[2]:
            kv = kv.repeat_interleave(q.shape[2] // kv.shape[3], dim=3)
        return self._attend(q, *kv.unbind(2), causal, key_padding_mask, True)


# --- with weights


def _update_kv_cache(kv, inference_params, layer_idx):
    """Writes kv [B, S, 2, G, D] into the layer's cache, which it makes if there is none, behind
    seqlen_offset; returns the cache of these sequences up to there."""
    state = inference_params
    if layer_idx not in state.key_value_memory_dict:
        cache = kv.new_empty(state.max_batch_size, state.max_seqlen, *kv.shape[2:])
        state.key_value_memory_dict[layer_idx] = cache
    cache = state.key_value_memory_dict[layer_idx]
    batch = slice(state.batch_size_offset, state.batch_size_offset + kv.shape[0])
    rows = slice(state.seqlen_offset, state.seqlen_offset + kv.shape[1])
    if batch.stop > cache.shape[0] or rows.stop > cache.shape[1]:
        have = f"[{cache.shape[0]}, {cache.shape[1]}]"
        raise ValueError(f"kv needs a cache of [{batch.stop}, {rows.stop}], but it is {have}")
    cache[batch, rows] = kv
    return cache[batch, : rows.stop]


class MHA(nn.Module):
    """Multi-head attention of x [B, S, E] (or [total, E] with cu_seqlens), self or cross.

    num_heads_kv: fewer heads of k and v. use_flash_attn: by flash_attn's functions, else by
    matrix products, which take a key_padding_mask. return_residual: forward() returns x, too.
    fused_bias_fc has no effect; dwconv is left out. Weights: Wqkv, or Wq and Wkv; out_proj.
    """

    def __init__(
        self, embed_dim, num_heads, num_heads_kv=None, cross_attn=False,
        qkv_proj_bias=True, out_proj_bias=True, dropout=0.0,
        softmax_scale=None, causal=False, layer_idx=None, dwconv=False,
        rotary_emb_dim=0, rotary_emb_base=10000.0, rotary_emb_scale_base=None,
        rotary_emb_interleaved=False,
        use_alibi=False, window_size=(-1, -1), fused_bias_fc=False, use_flash_attn=False,
        return_residual=False, checkpointing=False, device=None, dtype=None,
    ) -> None:
        super().__init__()
        self.num_heads_kv = num_heads if num_heads_kv is None else num_heads_kv
        if dwconv:
            raise NotImplementedError("dwconv is left out of anyflash's MHA")
        if embed_dim % num_heads or num_heads % self.num_heads_kv:
            raise ValueError(
                f"embed_dim {embed_dim} must be a multiple of num_heads {num_heads}, and that "
                f"of num_heads_kv {self.num_heads_kv}"
            )
        if cross_attn and rotary_emb_dim > 0:
            raise ValueError("rotary_emb_dim requires self attention")
        if (use_alibi or tuple(window_size) != (-1, -1)) and not use_flash_attn:
            raise ValueError("use_alibi and window_size require use_flash_attn")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim, self.cross_attn = embed_dim // num_heads, cross_attn
        self.causal, self.layer_idx, self.dwconv = causal, layer_idx, dwconv
        self.rotary_emb_dim, self.use_flash_attn = rotary_emb_dim, use_flash_attn
        self.return_residual, self.checkpointing = return_residual, checkpointing
        if rotary_emb_dim > 0:
            options = (rotary_emb_base, rotary_emb_interleaved, rotary_emb_scale_base, device)
            self.rotary_emb = RotaryEmbedding(rotary_emb_dim, *options)
        linear = partial(nn.Linear, embed_dim, device=device, dtype=dtype)
        kv_dim = 2 * self.head_dim * self.num_heads_kv
        if cross_attn:
            self.Wq = linear(embed_dim, bias=qkv_proj_bias)
            self.Wkv = linear(kv_dim, bias=qkv_proj_bias)
        else:
            self.Wqkv = linear(embed_dim + kv_dim, bias=qkv_proj_bias)
        inner, cross = SelfAttention, CrossAttention
        if use_flash_attn:
            slopes = None
            if use_alibi:
                slopes = torch.tensor(get_alibi_slopes(num_heads), device=device)
            options = {"alibi_slopes": slopes, "window_size": window_size}
            inner = partial(FlashSelfAttention, **options)
            cross = partial(FlashCrossAttention, **options)
        self.inner_attn = inner(causal, softmax_scale, dropout)
        self.inner_cross_attn = cross(causal, softmax_scale, dropout)
        self.out_proj = linear(embed_dim, bias=out_proj_bias)

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None):
        """An empty cache [batch_size, max_seqlen, 2, G, D]."""
        shape = (batch_size, max_seqlen, 2, self.num_heads_kv, self.head_dim)
        return self.out_proj.weight.new_empty(shape, dtype=dtype)

    def _heads(self, x, *count):
        return x.unflatten(-1, (*count, self.head_dim))

    def _project(self, x, x_kv, mixer_subset):
        """(qkv [B, S, 3, H, D], None) of equal heads, or (q [B, S, H, D], kv)."""
        if self.cross_attn:
            asking = x if mixer_subset is None else x[:, mixer_subset]
            q = self.Wq(asking)
            kv = self.Wkv(x if x_kv is None else x_kv)
        else:
            qkv = self.Wqkv(x)
            if self.num_heads_kv == self.num_heads:
                return self._heads(qkv, 3, self.num_heads), None
            # Not by split(): rotation writes into these views.
            q, kv = qkv[..., : self.embed_dim], qkv[..., self.embed_dim :]
        return self._heads(q, self.num_heads), self._heads(kv, 2, self.num_heads_kv)

    def _rotate(self, q, kv, state):
        offset, longest = 0, None
        if state is not None:
            lengths, longest = state.lengths_per_sample, state.max_seqlen
            offset = state.seqlen_offset if lengths is None else lengths
        if kv is None:
            return self.rotary_emb(q, seqlen_offset=offset, max_seqlen=longest), None
        return self.rotary_emb(q, kv, seqlen_offset=offset, max_seqlen=longest)

    def _attend_cache(self, q, kv, state, **rotary):
        """Writes kv into the cache and attends over it, in one call."""
        batch, lengths = q.shape[0], state.lengths_per_sample
        cache = state.key_value_memory_dict[self.layer_idx][:batch]
        used = state.seqlen_offset if lengths is None else lengths[:batch]
        inner = self.inner_cross_attn
        return flash_attn_with_kvcache(
            q,
            *cache.unbind(2),
            *kv.unbind(2),
            cache_seqlens=used,
            softmax_scale=inner.softmax_scale,
            causal=inner.causal,
            window_size=inner.window_size,
            alibi_slopes=inner.alibi_slopes,
            **rotary,
        )

    def _generate(self, q, kv, state):
        """A step of generation: q of new tokens over the cache and them."""
        if self.layer_idx is None:
            raise ValueError("layer_idx is required for generation")
        decodes = state.seqlen_offset > 0 and self.use_flash_attn
        rotary = {}
        if self.rotary_emb_dim > 0:
            table = self.rotary_emb
            if decodes and table.scale is None and self.rotary_emb_dim % 16 == 0:
                table._update_cos_sin_cache(state.max_seqlen, q.device, q.dtype)
                rotary = {
                    "rotary_cos": table._cos_cached,
                    "rotary_sin": table._sin_cached,
                    "rotary_interleaved": table.interleaved,
                }
            else:
                q, kv = self._rotate(q, kv, state)
        if kv is None:
            q, kv = q[:, :, 0], q[:, :, 1:]
        if decodes:
            return self._attend_cache(q, kv, state, **rotary)
        return self.inner_cross_attn(q, _update_kv_cache(kv, state, self.layer_idx))

    def _attend(self, q, kv, **options):
        if self.rotary_emb_dim > 0:
            q, kv = self._rotate(q, kv, None)
        inner = self.inner_attn if kv is None else self.inner_cross_attn
        given = (q,) if kv is None else (q, kv)
        if self.checkpointing:
            return checkpoint(inner, *given, use_reentrant=False, **options)
        return inner(*given, **options)

    def forward(
        self, x, x_kv=None, key_padding_mask=None,
        cu_seqlens=None, max_seqlen=None, mixer_subset=None, inference_params=None, **kwargs,
    ):
        """x_kv: of cross attention; mixer_subset: rows of x whose output is wanted.

        inference_params: the state of generation, any object with the attributes max_seqlen,
        max_batch_size, seqlen_offset, batch_size_offset, lengths_per_sample (int32 [B] or
        None) and key_value_memory_dict ({layer_idx: cache}).
        """
        if mixer_subset is not None and not self.cross_attn:
            raise ValueError("mixer_subset requires cross_attn")
        if cu_seqlens is not None and self.rotary_emb_dim > 0:
            raise ValueError("cu_seqlens cannot be used with rotary_emb_dim")
        if self.use_flash_attn and key_padding_mask is not None:
            raise ValueError(
                "key_padding_mask cannot be used with use_flash_attn; unpad the input"
            )
        q, kv = self._project(x, x_kv, mixer_subset)
        if inference_params is not None:
            out = self._generate(q, kv, inference_params)
        elif not self.use_flash_attn:
            out = self._attend(q, kv, key_padding_mask=key_padding_mask, **kwargs)
        else:
            options = {"cu_seqlens": cu_seqlens, "max_seqlen": max_seqlen, **kwargs}
            if kv is not None and cu_seqlens is not None and not self.cross_attn:
                options.setdefault("cu_seqlens_k", cu_seqlens)
                options.setdefault("max_seqlen_k", max_seqlen)
            out = self._attend(q, kv, **options)
        out = self.out_proj(out.flatten(-2))
        return (out, x) if self.return_residual else out


__getattr__ = _left_out.names(__name__, "ParallelMHA")
