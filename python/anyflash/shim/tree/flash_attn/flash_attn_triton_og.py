"""Causal attention of q, k, v [B, H, S, D], by torch's scaled_dot_product_attention."""

import torch.nn.functional as F


def attention(q, k, v, sm_scale):
    """softmax(sm_scale * q k^T) v, each row with the keys up to its own place."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=sm_scale)
