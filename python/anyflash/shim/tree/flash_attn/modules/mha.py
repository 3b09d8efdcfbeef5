"""Multi-head attention as modules, with rotary embedding, ALiBi and KV caches."""

import math
from functools import partial

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from flash_attn import flash_attn_with_kvcache
from flash_attn.layers.rotary import RotaryEmbedding
from flash_attn.modules._attention import (
    CrossAttention,
    FlashCrossAttention,
    FlashSelfAttention,
    SelfAttention,
)
from flash_attn.ops.fused_dense import ColumnParallelLinear, RowParallelLinear
from flash_attn.utils.distributed import get_dim_for_local_rank


def get_alibi_slopes(nheads):
    """The slopes of ALiBi as a list: powers of 2 ** (-8 / n), those between for other n."""

    def of_power(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]

    power = 2 ** int(math.log2(nheads))
    return of_power(power) + of_power(2 * power)[0::2][: nheads - power]


def _update_kv_cache(kv, inference_params, layer_idx):
    """Writes kv [B, S, 2, G, D] at seqlen_offset; returns the cache up to its end."""
    memory = inference_params.key_value_memory_dict
    if layer_idx not in memory:
        rows = (inference_params.max_batch_size, inference_params.max_seqlen)
        memory[layer_idx] = kv.new_empty(*rows, *kv.shape[2:])
    first, start = inference_params.batch_size_offset, inference_params.seqlen_offset
    last, end = first + kv.shape[0], start + kv.shape[1]
    cache = memory[layer_idx]
    if last > cache.shape[0] or end > cache.shape[1]:
        raise ValueError(f"kv: needs a cache of [{last}, {end}], it is {[*cache.shape[:2]]}")
    cache[first:last, start:end] = kv
    return cache[first:last, :end]


class _CachedAttention(nn.Module):
    """What MHA and ParallelMHA do once q, k and v are there."""

    def _make_inner(self, num_heads, softmax_scale, dropout, use_alibi, window_size, device):
        is_local = tuple(window_size) != (-1, -1)
        if (use_alibi or is_local) and not self.use_flash_attn:
            raise ValueError("use_alibi and window_size need use_flash_attn")
        options = {
            "causal": self.causal,
            "softmax_scale": softmax_scale,
            "attention_dropout": dropout,
        }
        inner, cross = SelfAttention, CrossAttention
        if self.use_flash_attn:
            slopes = None
            if use_alibi:
                slopes = torch.tensor(self._own_slopes(num_heads), device=device)
            flash = {"alibi_slopes": slopes, "window_size": window_size}
            inner = partial(FlashSelfAttention, **flash)
            cross = partial(FlashCrossAttention, **flash)
        self.inner_attn, self.inner_cross_attn = inner(**options), cross(**options)

    def _own_slopes(self, num_heads):
        return get_alibi_slopes(num_heads)

    def _make_rotary(self, base, scale_base, interleaved, device):
        if self.rotary_emb_dim > 0:
            self.rotary_emb = RotaryEmbedding(
                self.rotary_emb_dim,
                base=base,
                scale_base=scale_base,
                interleaved=interleaved,
                device=device,
            )

    def _update_kv_cache(self, kv, inference_params):
        if self.layer_idx is None:
            raise ValueError("layer_idx: is needed for generation")
        return _update_kv_cache(kv, inference_params, self.layer_idx)

    def _attend_cache(self, q, kv, inference_params, rotary):
        lengths = inference_params.lengths_per_sample
        batch = q.shape[0]
        cache = inference_params.key_value_memory_dict[self.layer_idx][:batch]
        inner = self.inner_cross_attn
        return flash_attn_with_kvcache(
            q,
            cache[:, :, 0],
            cache[:, :, 1],
            kv[:, :, 0],
            kv[:, :, 1],
            cache_seqlens=(
                inference_params.seqlen_offset if lengths is None else lengths[:batch]
            ),
            softmax_scale=inner.softmax_scale,
            causal=inner.causal,
            window_size=getattr(inner, "window_size", (-1, -1)),
            alibi_slopes=getattr(inner, "alibi_slopes", None),
            **rotary,
        )

    def _apply_rotary_update_kvcache_attention(self, q, kv, inference_params):
        """Rotation, append and attention in one call."""
        rotary = {}
        if self.rotary_emb_dim > 0:
            table = self.rotary_emb
            table._update_cos_sin_cache(inference_params.max_seqlen, q.device, q.dtype)
            rotary = {
                "rotary_cos": table._cos_cached,
                "rotary_sin": table._sin_cached,
                "rotary_interleaved": table.interleaved,
            }
        return self._attend_cache(q, kv, inference_params, rotary)

    def _update_kvcache_attention(self, q, kv, inference_params):
        """Append and attention."""
        if inference_params.seqlen_offset == 0 or not self.use_flash_attn:
            return self.inner_cross_attn(q, self._update_kv_cache(kv, inference_params))
        return self._attend_cache(q, kv, inference_params, {})

    def _rotates_in_cache(self, inference_params):
        """Whether this step can rotate, append and attend in one call."""
        return (
            inference_params is not None
            and inference_params.seqlen_offset > 0
            and self.use_flash_attn
            and self.rotary_emb_dim > 0
            and self.rotary_emb_dim % 16 == 0
            and self.rotary_emb.scale is None
        )

    def _rotate(self, q, kv, inference_params):
        if self.rotary_emb_dim == 0:
            return q, kv
        offset, longest = 0, None
        if inference_params is not None:
            lengths, longest = inference_params.lengths_per_sample, inference_params.max_seqlen
            offset = inference_params.seqlen_offset if lengths is None else lengths
        if kv is None:
            return self.rotary_emb(q, seqlen_offset=offset, max_seqlen=longest), None
        return self.rotary_emb(q, kv, seqlen_offset=offset, max_seqlen=longest)

    def _context(self, q, kv, inference_params, **options):
        """q [B, S, H, D] and kv; or qkv [B, S, 3, H, D] and None."""
        if self._rotates_in_cache(inference_params):
            if kv is None:
                q, kv = q[:, :, 0], q[:, :, 1:]
            return self._apply_rotary_update_kvcache_attention(q, kv, inference_params)
        q, kv = self._rotate(q, kv, inference_params)
        if inference_params is not None:
            if kv is None:
                q, kv = q[:, :, 0], q[:, :, 1:]
            return self._update_kvcache_attention(q, kv, inference_params)
        inner, given = (self.inner_attn, (q,)) if kv is None else (
            self.inner_cross_attn,
            (q, kv),
        )
        if self.checkpointing:
            return checkpoint(inner, *given, use_reentrant=False, **options)
        return inner(*given, **options)

    def _split(self, qkv, heads, heads_kv):
        """(qkv, None) of equal heads, or (q, kv)."""
        if heads == heads_kv:
            return qkv.unflatten(-1, (3, heads, self.head_dim)), None
        q = qkv[..., : heads * self.head_dim].unflatten(-1, (heads, self.head_dim))
        kv = qkv[..., heads * self.head_dim :]  # no split(): they are turned in place
        return q, kv.unflatten(-1, (2, heads_kv, self.head_dim))

    def _new_cache(self, batch_size, max_seqlen, heads_kv, dtype):
        weight = self.out_proj.weight
        return torch.empty(
            batch_size,
            max_seqlen,
            2,
            heads_kv,
            self.head_dim,
            dtype=weight.dtype if dtype is None else dtype,
            device=weight.device,
        )


def _along_sequence(convolution, x):
    """A causal convolution of kernel 3 along the sequence of x [B, S, C]."""
    return convolution(x.transpose(1, 2))[..., :-2].transpose(1, 2).contiguous()


class MHA(_CachedAttention):
    """Multi-head attention of x [B, S, E] (or [total, E] with cu_seqlens), self or cross.

    num_heads_kv: fewer heads of k and v. use_flash_attn: by flash_attn's functions, else by
    matrix products, which take a key_padding_mask. return_residual: forward() also gives x.
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        num_heads_kv=None,
        cross_attn=False,
        qkv_proj_bias=True,
        out_proj_bias=True,
        dropout=0.0,
        softmax_scale=None,
        causal=False,
        layer_idx=None,
        dwconv=False,
        rotary_emb_dim=0,
        rotary_emb_base=10000.0,
        rotary_emb_scale_base=None,
        rotary_emb_interleaved=False,
        use_alibi=False,
        window_size=(-1, -1),
        fused_bias_fc=False,
        use_flash_attn=False,
        return_residual=False,
        checkpointing=False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.num_heads = num_heads
        self.num_heads_kv = num_heads if num_heads_kv is None else num_heads_kv
        if embed_dim % num_heads or num_heads % self.num_heads_kv:
            raise ValueError(
                f"embed_dim {embed_dim}, num_heads {num_heads} and num_heads_kv "
                f"{self.num_heads_kv} do not divide"
            )
        if cross_attn and rotary_emb_dim > 0:
            raise ValueError("rotary_emb_dim: is for self attention")
        self.embed_dim, self.head_dim = embed_dim, embed_dim // num_heads
        self.cross_attn, self.causal, self.layer_idx = cross_attn, causal, layer_idx
        self.dwconv, self.rotary_emb_dim = dwconv, rotary_emb_dim
        self.use_flash_attn, self.return_residual = use_flash_attn, return_residual
        self.checkpointing = checkpointing
        self._make_rotary(
            rotary_emb_base, rotary_emb_scale_base, rotary_emb_interleaved, device
        )
        kv_dim = 2 * self.head_dim * self.num_heads_kv
        if cross_attn:
            self.Wq = nn.Linear(embed_dim, embed_dim, bias=qkv_proj_bias, **options)
            self.Wkv = nn.Linear(embed_dim, kv_dim, bias=qkv_proj_bias, **options)
        else:
            self.Wqkv = nn.Linear(embed_dim, embed_dim + kv_dim, bias=qkv_proj_bias, **options)
        if dwconv:
            sizes = {"dwconv_q": embed_dim, "dwconv_kv": kv_dim}
            if self.num_heads_kv == num_heads:
                sizes = {"dwconv_qkv": embed_dim + kv_dim}
            for name, size in sizes.items():
                setattr(self, name, nn.Conv1d(size, size, 3, padding=2, groups=size))
        self._make_inner(num_heads, softmax_scale, dropout, use_alibi, window_size, device)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=out_proj_bias, **options)

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None):
        return self._new_cache(batch_size, max_seqlen, self.num_heads_kv, dtype)

    def _projected(self, x, x_kv, mixer_subset):
        """(qkv, None) or (q, kv)."""
        if self.cross_attn:
            q = self.Wq(x if mixer_subset is None else x[:, mixer_subset])
            kv = self.Wkv(x if x_kv is None else x_kv)
        else:
            qkv = self.Wqkv(x)
            if self.num_heads_kv == self.num_heads:
                if self.dwconv:
                    qkv = _along_sequence(self.dwconv_qkv, qkv)
                return self._split(qkv, self.num_heads, self.num_heads_kv)
            q, kv = qkv[..., : self.embed_dim], qkv[..., self.embed_dim :]
        if self.dwconv:
            q, kv = _along_sequence(self.dwconv_q, q), _along_sequence(self.dwconv_kv, kv)
        q = q.unflatten(-1, (self.num_heads, self.head_dim))
        return q, kv.unflatten(-1, (2, self.num_heads_kv, self.head_dim))

    def forward(
        self,
        x,
        x_kv=None,
        key_padding_mask=None,
        cu_seqlens=None,
        max_seqlen=None,
        mixer_subset=None,
        inference_params=None,
        **kwargs,
    ):
        """x_kv: of cross attention; mixer_subset: rows of x that ask; inference_params: see
        utils.generation.InferenceParams."""
        if cu_seqlens is not None and (self.dwconv or self.rotary_emb_dim > 0):
            raise ValueError("cu_seqlens: not with dwconv or rotary_emb_dim")
        if self.use_flash_attn:
            if key_padding_mask is not None:
                raise ValueError("key_padding_mask: not with use_flash_attn; unpad the input")
            kwargs = {"cu_seqlens": cu_seqlens, "max_seqlen": max_seqlen, **kwargs}
        else:
            kwargs = {"key_padding_mask": key_padding_mask, **kwargs}
        q, kv = self._projected(x, x_kv, mixer_subset)
        if kv is not None and cu_seqlens is not None and not self.cross_attn:
            kwargs.setdefault("cu_seqlens_k", cu_seqlens)
            kwargs.setdefault("max_seqlen_k", max_seqlen)
        out = self.out_proj(self._context(q, kv, inference_params, **kwargs).flatten(-2))
        return (out, x) if self.return_residual else out


class ParallelMHA(_CachedAttention):
    """MHA of which each process holds some heads."""

    def __init__(
        self,
        embed_dim,
        num_heads,
        process_group,
        num_heads_kv=None,
        qkv_proj_bias=True,
        out_proj_bias=True,
        dropout=0.0,
        softmax_scale=None,
        causal=False,
        layer_idx=None,
        rotary_emb_dim=0,
        rotary_emb_base=10000.0,
        rotary_emb_scale_base=None,
        rotary_emb_interleaved=False,
        use_alibi=False,
        window_size=(-1, -1),
        use_flash_attn=False,
        checkpointing=False,
        sequence_parallel=True,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype, "sequence_parallel": sequence_parallel}
        self.embed_dim, self.causal, self.layer_idx = embed_dim, causal, layer_idx
        self.rotary_emb_dim, self.use_flash_attn = rotary_emb_dim, use_flash_attn
        self.checkpointing, self.process_group = checkpointing, process_group
        self.num_heads = num_heads
        self.num_heads_kv = num_heads if num_heads_kv is None else num_heads_kv
        world = torch.distributed.get_world_size(process_group)
        rank = torch.distributed.get_rank(process_group)
        self.num_heads_per_rank = get_dim_for_local_rank(num_heads, world, rank)
        self.num_heads_kv_per_rank = get_dim_for_local_rank(self.num_heads_kv, world, rank)
        self.head_dim = embed_dim // num_heads
        self._make_rotary(
            rotary_emb_base, rotary_emb_scale_base, rotary_emb_interleaved, device
        )
        qkv_dim = self.head_dim * (num_heads + 2 * self.num_heads_kv)
        self.Wqkv = ColumnParallelLinear(
            embed_dim,
            qkv_dim,
            process_group,
            bias=qkv_proj_bias,
            multiple_of=self.head_dim * (num_heads // self.num_heads_kv + 2),
            **options,
        )
        self._make_inner(num_heads, softmax_scale, dropout, use_alibi, window_size, device)
        self.out_proj = RowParallelLinear(
            embed_dim,
            embed_dim,
            process_group,
            bias=out_proj_bias,
            multiple_of=self.head_dim,
            **options,
        )

    def _own_slopes(self, num_heads):
        rank = torch.distributed.get_rank(self.process_group)
        world = torch.distributed.get_world_size(self.process_group)
        before = sum(get_dim_for_local_rank(num_heads, world, r) for r in range(rank))
        return get_alibi_slopes(num_heads)[before : before + self.num_heads_per_rank]

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None):
        return self._new_cache(batch_size, max_seqlen, self.num_heads_kv_per_rank, dtype)

    def forward(self, x, seqlen=None, inference_params=None, **kwargs):
        """x: [B, S, E], or [B * S, E] with seqlen."""
        qkv = self.Wqkv(x)
        if seqlen is not None:
            qkv = qkv.unflatten(0, (-1, seqlen))
        q, kv = self._split(qkv, self.num_heads_per_rank, self.num_heads_kv_per_rank)
        context = self._context(q, kv, inference_params, **kwargs).flatten(-2)
        return self.out_proj(context if seqlen is None else context.flatten(0, 1))
