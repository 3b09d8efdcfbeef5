"""Rotary embedding at an offset of each sequence, in plain torch."""

import torch


def apply_rotary_emb(x, cos, sin, interleaved=False, seqlen_offsets=0):
    """x [B, S, H, D] turned by cos, sin [rows, dim / 2] from row seqlen_offsets [B] on."""
    rows = torch.arange(x.shape[1])[None] + torch.as_tensor(seqlen_offsets).reshape(-1, 1)
    cos, sin = cos[rows].unsqueeze(2), sin[rows].unsqueeze(2)
    turned, rest = x[..., : 2 * cos.shape[-1]], x[..., 2 * cos.shape[-1] :]
    if interleaved:
        a, b = turned[..., ::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        turned = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    return torch.cat((turned, rest), -1)
