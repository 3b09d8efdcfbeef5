"""Attention with an added bias, by torch's scaled_dot_product_attention."""

import torch
import torch.nn.functional as F


def flash_attn_func(q, k, v, bias=None, causal=False, softmax_scale=None):
    """Of q [B, Sq, H, D], k, v [B, Sk, H, D]; bias broadcasts to [B, H, Sq, Sk]; causal ends
    at the bottom right corner."""
    rows, columns = q.shape[1], k.shape[1]
    mask = None if bias is None else bias.to(q.dtype)
    if causal:
        visible = torch.ones(rows, columns, dtype=torch.bool, device=q.device)
        visible = visible.tril(columns - rows)
        mask = visible if mask is None else mask.masked_fill(~visible, float("-inf"))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=softmax_scale)
    return out.transpose(1, 2)


def flash_attn_kvpacked_func(q, kv, bias=None, causal=False, softmax_scale=None):
    """flash_attn_func() of kv [B, Sk, 2, H, D]."""
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], bias, causal, softmax_scale)


def flash_attn_qkvpacked_func(qkv, bias=None, causal=False, softmax_scale=None):
    """flash_attn_func() of qkv [B, S, 3, H, D]."""
    q, k, v = qkv.unbind(dim=2)
    return flash_attn_func(q, k, v, bias, causal, softmax_scale)
