"""Rotary position embedding, in float32 inside as the kernel of this name."""

from typing import Optional, Union

import torch


def _positions(x, seqlen_offsets, cu_seqlens):
    """Each row's place in its sequence: [S], [B, S] or [total]."""
    if cu_seqlens is None:
        rows = torch.arange(x.shape[1], device=x.device)
        if isinstance(seqlen_offsets, torch.Tensor):
            return rows + seqlen_offsets[:, None]
        return rows + seqlen_offsets
    rows = torch.arange(x.shape[0], device=x.device)
    batch = torch.searchsorted(cu_seqlens[1:].contiguous(), rows, right=True)
    batch = batch.clamp(max=cu_seqlens.shape[0] - 2)
    if isinstance(seqlen_offsets, torch.Tensor):
        seqlen_offsets = seqlen_offsets[batch]
    return rows - cu_seqlens[batch] + seqlen_offsets


def _taken(table, positions, beyond):
    """Rows of a table of angles, float32; `beyond` after its end."""
    last = table.shape[0] - 1
    rows = table[positions.clamp(0, last)].float()
    return torch.where((positions <= last)[..., None], rows, beyond)


def apply_rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seqlen_offsets: Union[int, torch.Tensor] = 0,
    cu_seqlens: Optional[torch.Tensor] = None,
    max_seqlen: Optional[int] = None,
    interleaved=False,
    inplace=False,
    conjugate=False,
) -> torch.Tensor:
    """x [B, S, H, D], or [total, H, D] with cu_seqlens, its first 2 * cos.shape[1] dimensions
    rotated by the angles of cos, sin [rows, dim / 2] at seqlen_offsets + its row.

    conjugate: by the negative angles, which undoes it and gives the gradient.
    """
    half = cos.shape[-1]
    if 2 * half > x.shape[-1]:
        raise ValueError(f"cos: {2 * half} rotated dimensions, x has {x.shape[-1]}")
    positions = _positions(x, seqlen_offsets, cu_seqlens)
    cos, sin = _taken(cos, positions, 1.0), _taken(sin, positions, 0.0)
    cos, sin = cos[..., None, :], -sin[..., None, :] if conjugate else sin[..., None, :]
    turned = x[..., : 2 * half].float()
    turned = turned.unflatten(-1, (half, 2) if interleaved else (2, half))
    axis = -1 if interleaved else -2
    a, b = turned.unbind(axis)
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2)
    out = x if inplace else x.clone()
    # Past autograd, as a kernel writes: q and k of one tensor are turned one after the other.
    out.data[..., : 2 * half] = turned.to(x.dtype)
    return out
