"""The attentions inside mha.MHA: by flash_attn's functions, and by plain torch."""

import math

import torch
import torch.nn as nn

from flash_attn import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

_HIDDEN = -10000.0


class _Flash(nn.Module):
    def __init__(
        self, causal, softmax_scale, dropout, window_size, alibi_slopes, deterministic
    ):
        super().__init__()
        self.causal, self.softmax_scale = causal, softmax_scale
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
    """flash_attn_qkvpacked_func() of qkv [B, S, 3, H, D], or [total, 3, H, D] with
    cu_seqlens int32 [B + 1] and max_seqlen."""

    def __init__(
        self,
        causal=False,
        softmax_scale=None,
        attention_dropout=0.0,
        window_size=(-1, -1),
        alibi_slopes=None,
        deterministic=False,
    ):
        super().__init__(
            causal, softmax_scale, attention_dropout, window_size, alibi_slopes, deterministic
        )

    def forward(self, qkv, causal=None, cu_seqlens=None, max_seqlen=None):
        options = self._options(causal)
        if cu_seqlens is None:
            return flash_attn_qkvpacked_func(qkv, **options)
        return flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, **options)


class FlashCrossAttention(_Flash):
    """flash_attn_kvpacked_func() of q [B, Sq, H, D] and kv [B, Sk, 2, G, D], or of packed
    ones with cu_seqlens, max_seqlen of q, and cu_seqlens_k, max_seqlen_k."""

    def __init__(
        self,
        causal=False,
        softmax_scale=None,
        attention_dropout=0.0,
        alibi_slopes=None,
        window_size=(-1, -1),
        deterministic=False,
    ):
        super().__init__(
            causal, softmax_scale, attention_dropout, window_size, alibi_slopes, deterministic
        )

    def forward(
        self,
        q,
        kv,
        causal=None,
        cu_seqlens=None,
        max_seqlen=None,
        cu_seqlens_k=None,
        max_seqlen_k=None,
    ):
        options = self._options(causal)
        if cu_seqlens is None:
            return flash_attn_kvpacked_func(q, kv, **options)
        return flash_attn_varlen_kvpacked_func(
            q, kv, cu_seqlens, cu_seqlens_k, max_seqlen, max_seqlen_k, **options
        )


class _Plain(nn.Module):
    """Attention by matrix products, for any type, device and padding mask."""

    def __init__(self, causal=False, softmax_scale=None, attention_dropout=0.0):
        super().__init__()
        self.causal, self.softmax_scale = causal, softmax_scale
        self.drop = nn.Dropout(attention_dropout)

    def _attend(self, q, k, v, causal, key_padding_mask):
        causal = self.causal if causal is None else causal
        scale = self.softmax_scale or 1.0 / math.sqrt(q.shape[-1])
        scores = torch.einsum("bthd,bshd->bhts", q, k * scale)
        rows, columns = scores.shape[-2:]
        used = columns
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask[:, None, None, :], _HIDDEN)
            used = key_padding_mask.sum(-1)[:, None, None, None]
        if causal:
            i = torch.arange(rows, device=q.device)[:, None]
            j = torch.arange(columns, device=q.device)
            scores = scores.masked_fill(j > i + self._offset(rows, columns, used), _HIDDEN)
        weights = torch.softmax(scores, dim=-1, dtype=v.dtype)
        return torch.einsum("bhts,bshd->bthd", self.drop(weights), v)


class SelfAttention(_Plain):
    """Of qkv [B, S, 3, H, D]; key_padding_mask [B, S], True is kept."""

    @staticmethod
    def _offset(rows, columns, used):
        return 0

    def forward(self, qkv, causal=None, key_padding_mask=None):
        return self._attend(*qkv.unbind(dim=2), causal, key_padding_mask)


class CrossAttention(_Plain):
    """Of q [B, Sq, H, D] and kv [B, Sk, 2, G, D]; causal ends with the last key kept."""

    @staticmethod
    def _offset(rows, columns, used):
        return used - rows

    def forward(self, q, kv, causal=None, key_padding_mask=None):
        if kv.shape[3] != q.shape[2]:
            kv = kv.repeat_interleave(q.shape[2] // kv.shape[3], dim=3)
        return self._attend(q, *kv.unbind(dim=2), causal, key_padding_mask)
