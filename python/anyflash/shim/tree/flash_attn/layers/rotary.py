"""Rotary position embedding: functions with gradients, and the module with its tables.

    q = apply_rotary_emb(q, cos, sin)               # [B, S, H, D]; cos, sin [S, dim / 2]
    qkv = RotaryEmbedding(64)(qkv)                  # [B, S, 3, H, D], in place
"""

from typing import Optional, Union

import torch
from torch import Tensor

from anyflash.providers.compose import rotate
from flash_attn.ops.triton.rotary import apply_rotary


def rotate_half(x, interleaved=False):
    """(-b, a) of the pairs (a, b) of the last dimension: its halves, or its neighbours."""
    return rotate(x, x.new_zeros(()), x.new_ones(()), interleaved)


def apply_rotary_emb_torch(x, cos, sin, interleaved=False):
    """x [B, S, H, D] rotated by cos, sin [S, dim / 2] or [B, S, dim / 2], in x's type."""
    dim = 2 * cos.shape[-1]
    turned = rotate(x[..., :dim], cos.unsqueeze(-2), sin.unsqueeze(-2), interleaved)
    return torch.cat((turned, x[..., dim:]), dim=-1)


class ApplyRotaryEmb(torch.autograd.Function):
    """apply_rotary(); its gradient is the rotation back."""

    @staticmethod
    def forward(
        ctx, x, cos, sin,
        interleaved=False, inplace=False, seqlen_offsets: Union[int, Tensor] = 0,
        cu_seqlens: Optional[Tensor] = None, max_seqlen: Optional[int] = None,
    ):
        ctx.angles = (cos, sin, seqlen_offsets, cu_seqlens, max_seqlen, interleaved)
        return apply_rotary(x, *ctx.angles, inplace=inplace)

    @staticmethod
    def backward(ctx, do):
        return (apply_rotary(do, *ctx.angles, conjugate=True), *[None] * 7)


def apply_rotary_emb(
    x, cos, sin, interleaved=False, inplace=False, seqlen_offsets: Union[int, Tensor] = 0,
    cu_seqlens: Optional[Tensor] = None, max_seqlen: Optional[int] = None,
):
    """x [B, S, H, D], or [total, H, D] with cu_seqlens int32 [B + 1], rotated.

    cos, sin: [rows, dim / 2], dim <= D; row seqlen_offsets (int, or int32 [B]) is for the
    first row of x. interleaved: pairs are neighbours (GPT-J), else halves (GPT-NeoX).
    inplace: x is changed and returned.
    """
    return ApplyRotaryEmb.apply(
        x, cos, sin, interleaved, inplace, seqlen_offsets, cu_seqlens, max_seqlen
    )


apply_rotary_emb_func = apply_rotary_emb


class ApplyRotaryEmbQKV_(torch.autograd.Function):
    """Rotates q and k of qkv in place, each view of it by its own angles."""

    @staticmethod
    def turn(qkv, cos, sin, cos_k, sin_k, interleaved, offsets, num_heads_q, conjugate):
        if qkv.dim() == 5:
            q, k, _ = qkv.unbind(2)
        elif num_heads_q is None:
            raise ValueError("num_heads_q is required with qkv of 4 dimensions")
        else:
            heads_k = (qkv.shape[2] - num_heads_q) // 2
            q, k, _ = qkv.tensor_split((num_heads_q, num_heads_q + heads_k), dim=2)
        angles_k = (cos if cos_k is None else cos_k, sin if sin_k is None else sin_k)
        options = {"interleaved": interleaved, "inplace": True, "conjugate": conjugate}
        for part, angles in ((q, (cos, sin)), (k, angles_k)):
            apply_rotary(part, *angles, offsets, **options)
        return qkv

    @staticmethod
    def forward(
        ctx, qkv, cos, sin, cos_k=None, sin_k=None, interleaved=False,
        seqlen_offsets: Union[int, Tensor] = 0, num_heads_q: Optional[int] = None,
    ):
        ctx.given = (cos, sin, cos_k, sin_k, interleaved, seqlen_offsets, num_heads_q)
        return ApplyRotaryEmbQKV_.turn(qkv, *ctx.given, False)

    @staticmethod
    def backward(ctx, dqkv):
        return (ApplyRotaryEmbQKV_.turn(dqkv.clone(), *ctx.given, True), *[None] * 7)


def apply_rotary_emb_qkv_(
    qkv, cos, sin, cos_k=None, sin_k=None, interleaved=False,
    seqlen_offsets: Union[int, Tensor] = 0, num_heads_q: Optional[int] = None,
):
    """Rotates q and k of qkv in place and returns qkv.

    qkv: [B, S, 3, H, D], or [B, S, H + 2 G, D] with num_heads_q = H. cos_k, sin_k: other
    angles for k (XPos).
    """
    return ApplyRotaryEmbQKV_.apply(
        qkv, cos, sin, cos_k, sin_k, interleaved, seqlen_offsets, num_heads_q
    )


class ApplyRotaryEmbKV_(torch.autograd.Function):
    """Rotates k of kv in place."""

    @staticmethod
    def forward(
        ctx, kv, cos, sin, interleaved=False, seqlen_offsets: Union[int, Tensor] = 0
    ):
        ctx.angles = (cos, sin, seqlen_offsets, None, None, interleaved)
        apply_rotary(kv[:, :, 0], *ctx.angles, inplace=True)
        return kv

    @staticmethod
    def backward(ctx, dkv):
        dkv = dkv.clone()
        apply_rotary(dkv[:, :, 0], *ctx.angles, inplace=True, conjugate=True)
        return (dkv, *[None] * 4)


def apply_rotary_emb_kv_(
    kv, cos, sin, interleaved=False, seqlen_offsets: Union[int, Tensor] = 0
):
    """Rotates k of kv [B, S, 2, G, D] in place and returns kv."""
    return ApplyRotaryEmbKV_.apply(kv, cos, sin, interleaved, seqlen_offsets)


class RotaryEmbedding(torch.nn.Module):
    """Rotary embedding (RoFormer), with scale_base also XPos; makes its tables as needed.

    dim: rotated dimensions of each head. base: of the geometric series of wavelengths.
    Programs read _cos_cached, _sin_cached and call _update_cos_sin_cache().
    """

    def __init__(self, dim: int, base=10000.0, interleaved=False, scale_base=None, device=None):
        super().__init__()
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        self.scale_base = scale_base
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        decay = None
        if scale_base is not None:  # XPos: of dimension d, (d + 0.4 dim) / (1.4 dim)
            decay = (self._even(device) + 0.4 * dim) / (1.4 * dim)
        self.register_buffer("scale", decay, persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = self._sin_cached = self._cos_k_cached = self._sin_k_cached = None

    def _even(self, device):
        return torch.arange(0, self.dim, 2, device=device, dtype=torch.float32)

    def _compute_inv_freq(self, device=None):
        return 1.0 / self.base ** (self._even(device) / self.dim)

    def _is_cached(self, seqlen, device, dtype):
        cos = self._cos_cached
        if cos is None or self._seq_len_cached < seqlen:
            return False
        usable = not (self.training and cos.is_inference())  # not allowed by autograd
        return usable and (cos.device, cos.dtype) == (device, dtype)

    def _update_cos_sin_cache(self, seqlen, device=None, dtype=None):
        """Makes tables of `seqlen` rows unless the existing ones can be used."""
        if self._is_cached(seqlen, device, dtype):
            return
        # In float32: a module cast to bf16 has coarse inv_freq, and bf16 has no position 257.
        inv_freq = self.inv_freq if device is None else self.inv_freq.to(device)
        if inv_freq.dtype != torch.float32:
            inv_freq = self._compute_inv_freq(device)
        position = torch.arange(seqlen, device=inv_freq.device, dtype=torch.float32)
        angle = torch.outer(position, inv_freq)
        cos, sin = angle.cos(), angle.sin()
        self._seq_len_cached = seqlen
        if self.scale is None:
            self._cos_cached, self._sin_cached = cos.to(dtype), sin.to(dtype)
            return
        from_middle = (position - seqlen // 2) / self.scale_base
        decay = self.scale.to(inv_freq) ** from_middle.unsqueeze(1)
        tables = [t.to(dtype) for t in (cos * decay, sin * decay, cos / decay, sin / decay)]
        self._cos_cached, self._sin_cached, self._cos_k_cached, self._sin_k_cached = tables

    def forward(
        self, qkv: Tensor, kv: Optional[Tensor] = None, seqlen_offset: Union[int, Tensor] = 0,
        max_seqlen: Optional[int] = None, num_heads_q: Optional[int] = None,
    ):
        """qkv as apply_rotary_emb_qkv_(), in place; or (q, kv) with kv [B, S, 2, G, D]."""
        if max_seqlen is None and isinstance(seqlen_offset, int):
            max_seqlen = seqlen_offset + qkv.shape[1]
        if max_seqlen is not None:
            self._update_cos_sin_cache(max_seqlen, qkv.device, qkv.dtype)
        elif self._cos_cached is None:
            raise ValueError("max_seqlen is required when seqlen_offset is a tensor")
        angles, order = (self._cos_cached, self._sin_cached), self.interleaved
        angles_k = (self._cos_k_cached, self._sin_k_cached)
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv, *angles, *angles_k, order, seqlen_offset, num_heads_q
            )
        q = apply_rotary_emb(qkv, *angles, order, True, seqlen_offset)
        angles_k = angles if angles_k[0] is None else angles_k
        return q, apply_rotary_emb_kv_(kv, *angles_k, order, seqlen_offset)
