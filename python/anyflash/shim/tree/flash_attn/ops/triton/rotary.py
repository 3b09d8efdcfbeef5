"""Rotary position embedding, computed in float32 as the Triton kernel of this name does.

    q = apply_rotary(q, cos, sin, seqlen_offsets=16)     # row 0 of q is at position 16
"""

from typing import Optional, Union

import torch

from anyflash.providers.compose import rotate


def _positions(x, seqlen_offsets, cu_seqlens):
    """The position of each row in its sequence: [S], [B, S] or [total]."""
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


def _at(table, positions, beyond):
    """Rows of a table of angles, float32 [.., 1, dim / 2]; `beyond` past its end."""
    last = table.shape[0] - 1
    rows = table[positions.clamp(0, last)].float()
    return torch.where((positions <= last)[..., None], rows, beyond).unsqueeze(-2)


def apply_rotary(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor,
    seqlen_offsets: Union[int, torch.Tensor] = 0,
    cu_seqlens: Optional[torch.Tensor] = None, max_seqlen: Optional[int] = None,
    interleaved=False, inplace=False, conjugate=False,
) -> torch.Tensor:
    """x [B, S, H, D], or [total, H, D] with cu_seqlens, its first 2 * cos.shape[1] dimensions
    rotated by the angles of cos, sin [rows, dim / 2] at seqlen_offsets + its row.

    conjugate: by the negative angles, which undoes it and gives the gradient.
    """
    dim = 2 * cos.shape[-1]
    if dim > x.shape[-1]:
        raise ValueError(f"cos: {dim} rotated dimensions, but x has {x.shape[-1]}")
    positions = _positions(x, seqlen_offsets, cu_seqlens)
    cos, sin = _at(cos, positions, 1.0), _at(sin, positions, 0.0)
    turned = rotate(x[..., :dim].float(), cos, -sin if conjugate else sin, interleaved)
    out = x if inplace else x.clone()
    # Hidden from autograd, as a kernel writes: q and k of one tensor are turned in turn.
    out.data[..., :dim] = turned.to(x.dtype)
    return out
