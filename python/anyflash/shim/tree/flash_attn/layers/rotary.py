"""Rotary position embedding: functions with gradients, and the module with its tables."""

from typing import Optional, Union

import torch
from torch import Tensor

from flash_attn.ops.triton.rotary import apply_rotary


def rotate_half(x, interleaved=False):
    """(-b, a) of the pairs (a, b) of the last dimension: its halves, or its neighbours."""
    if interleaved:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((-b, a), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rotary_emb_torch(x, cos, sin, interleaved=False):
    """x [B, S, H, D] rotated by cos, sin [S, dim / 2] or [B, S, dim / 2], in x's type."""
    dim = 2 * cos.shape[-1]
    if interleaved:
        cos, sin = (t.repeat_interleave(2, dim=-1)[..., None, :] for t in (cos, sin))
    else:
        cos, sin = (torch.cat((t, t), dim=-1)[..., None, :] for t in (cos, sin))
    turned = x[..., :dim]
    turned = turned * cos + rotate_half(turned, interleaved) * sin
    return torch.cat((turned, x[..., dim:]), dim=-1)


class ApplyRotaryEmb(torch.autograd.Function):
    """apply_rotary(); its gradient is the rotation back."""

    @staticmethod
    def forward(
        ctx,
        x,
        cos,
        sin,
        interleaved=False,
        inplace=False,
        seqlen_offsets: Union[int, Tensor] = 0,
        cu_seqlens: Optional[Tensor] = None,
        max_seqlen: Optional[int] = None,
    ):
        ctx.angles = (cos, sin, seqlen_offsets, cu_seqlens, max_seqlen, interleaved)
        return apply_rotary(x, *ctx.angles, inplace=inplace)

    @staticmethod
    def backward(ctx, do):
        return (apply_rotary(do, *ctx.angles, conjugate=True), *[None] * 7)


def apply_rotary_emb(
    x,
    cos,
    sin,
    interleaved=False,
    inplace=False,
    seqlen_offsets: Union[int, Tensor] = 0,
    cu_seqlens: Optional[Tensor] = None,
    max_seqlen: Optional[int] = None,
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


def _parts(qkv, num_heads_q):
    """Views of q and k in qkv [B, S, 3, H, D] or [B, S, H + 2 G, D]."""
    if qkv.dim() == 5:
        return qkv[:, :, 0], qkv[:, :, 1]
    if num_heads_q is None:
        raise ValueError("num_heads_q: is needed with qkv of 4 dimensions")
    heads_k = (qkv.shape[2] - num_heads_q) // 2
    return qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads_k]


def _turn_qkv(qkv, cos, sin, cos_k, sin_k, interleaved, offsets, num_heads_q, conjugate):
    q, k = _parts(qkv, num_heads_q)
    options = {"interleaved": interleaved, "inplace": True, "conjugate": conjugate}
    apply_rotary(q, cos, sin, offsets, **options)
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    apply_rotary(k, cos_k, sin_k, offsets, **options)
    return qkv


class ApplyRotaryEmbQKV_(torch.autograd.Function):
    """Rotation in place of the q and k in qkv."""

    @staticmethod
    def forward(
        ctx,
        qkv,
        cos,
        sin,
        cos_k=None,
        sin_k=None,
        interleaved=False,
        seqlen_offsets: Union[int, torch.Tensor] = 0,
        num_heads_q: Optional[int] = None,
    ):
        ctx.angles = (cos, sin, cos_k, sin_k, interleaved, seqlen_offsets, num_heads_q)
        return _turn_qkv(qkv, *ctx.angles, False)

    @staticmethod
    def backward(ctx, dqkv):
        return (_turn_qkv(dqkv.clone(), *ctx.angles, True), *[None] * 7)


def apply_rotary_emb_qkv_(
    qkv,
    cos,
    sin,
    cos_k=None,
    sin_k=None,
    interleaved=False,
    seqlen_offsets: Union[int, torch.Tensor] = 0,
    num_heads_q: Optional[int] = None,
):
    """q and k in qkv rotated in place; returns qkv.

    qkv: [B, S, 3, H, D], or [B, S, H + 2 G, D] with num_heads_q = H. cos_k, sin_k: other
    angles for k (XPos).
    """
    return ApplyRotaryEmbQKV_.apply(
        qkv, cos, sin, cos_k, sin_k, interleaved, seqlen_offsets, num_heads_q
    )


class ApplyRotaryEmbKV_(torch.autograd.Function):
    """Rotation in place of the k in kv."""

    @staticmethod
    def forward(
        ctx, kv, cos, sin, interleaved=False, seqlen_offsets: Union[int, torch.Tensor] = 0
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
    kv,
    cos,
    sin,
    interleaved=False,
    seqlen_offsets: Union[int, torch.Tensor] = 0,
):
    """k in kv [B, S, 2, G, D] rotated in place; returns kv."""
    return ApplyRotaryEmbKV_.apply(kv, cos, sin, interleaved, seqlen_offsets)


class RotaryEmbedding(torch.nn.Module):
    """Rotary embedding (RoFormer), with scale_base also XPos; tables made as needed.

    dim: rotated dimensions of each head. base: of the geometric row of wavelengths.
    """

    def __init__(
        self,
        dim: int,
        base=10000.0,
        interleaved=False,
        scale_base=None,
        device=None,
    ):
        super().__init__()
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        self.scale_base = scale_base
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        scale = None
        if scale_base is not None:
            steps = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
            scale = (steps + 0.4 * dim) / (1.4 * dim)
        self.register_buffer("scale", scale, persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = self._sin_cached = None
        self._cos_k_cached = self._sin_k_cached = None

    def _compute_inv_freq(self, device=None):
        steps = torch.arange(0, self.dim, 2, device=device, dtype=torch.float32)
        return 1.0 / (self.base ** (steps / self.dim))

    def _is_cached(self, seqlen, device, dtype):
        cached = self._cos_cached
        return (
            cached is not None
            and seqlen <= self._seq_len_cached
            and cached.device == device
            and cached.dtype == dtype
            and not (self.training and cached.is_inference())
        )

    def _update_cos_sin_cache(self, seqlen, device=None, dtype=None):
        if self._is_cached(seqlen, device, dtype):
            return
        self._seq_len_cached = seqlen
        # A module cast to bf16 has coarse inv_freq, and positions above 256 are no bf16.
        inv_freq = self.inv_freq
        if inv_freq.dtype != torch.float32:
            inv_freq = self._compute_inv_freq(device)
        t = torch.arange(seqlen, device=device, dtype=torch.float32)
        angles = torch.outer(t, inv_freq.to(t.device))
        cos, sin = torch.cos(angles), torch.sin(angles)
        if self.scale is None:
            self._cos_cached, self._sin_cached = cos.to(dtype), sin.to(dtype)
            return
        power = (t - seqlen // 2) / self.scale_base
        scale = self.scale.to(device=power.device) ** power[:, None]
        self._cos_cached, self._sin_cached = (cos * scale).to(dtype), (sin * scale).to(dtype)
        self._cos_k_cached = (cos / scale).to(dtype)
        self._sin_k_cached = (sin / scale).to(dtype)

    def forward(
        self,
        qkv: torch.Tensor,
        kv: Optional[torch.Tensor] = None,
        seqlen_offset: Union[int, torch.Tensor] = 0,
        max_seqlen: Optional[int] = None,
        num_heads_q: Optional[int] = None,
    ):
        """qkv as apply_rotary_emb_qkv_(), in place; or (q, kv) with kv [B, S, 2, G, D]."""
        if max_seqlen is None and isinstance(seqlen_offset, int):
            max_seqlen = qkv.shape[1] + seqlen_offset
        if max_seqlen is not None:
            self._update_cos_sin_cache(max_seqlen, qkv.device, qkv.dtype)
        elif self._cos_cached is None:
            raise ValueError("max_seqlen: is needed when seqlen_offset is a tensor")
        cos, sin = self._cos_cached, self._sin_cached
        cos_k, sin_k = self._cos_k_cached, self._sin_k_cached
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv, cos, sin, cos_k, sin_k, self.interleaved, seqlen_offset, num_heads_q
            )
        q = apply_rotary_emb_func(qkv, cos, sin, self.interleaved, True, seqlen_offset)
        if cos_k is not None:
            cos, sin = cos_k, sin_k
        return q, apply_rotary_emb_kv_(kv, cos, sin, self.interleaved, seqlen_offset)
