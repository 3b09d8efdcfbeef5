"""Images into patches."""

import torch.nn as nn

from flash_attn.ops.fused_dense import FusedDense


def _pair(value):
    return value if isinstance(value, tuple) else (value, value)


class PatchEmbed(nn.Module):
    """Images [B, C, H, W] as projected patches [B, patches, E], or [B, h, w, E] without
    flatten."""

    def __init__(
        self,
        img_size=224,
        patch_size=16,
        in_chans=3,
        embed_dim=768,
        norm_layer=None,
        flatten=True,
        bias=True,
        fused_bias_fc=False,
    ):
        super().__init__()
        self.img_size, self.patch_size = _pair(img_size), _pair(patch_size)
        self.grid_size = tuple(i // p for i, p in zip(self.img_size, self.patch_size))
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.flatten = flatten
        layer = FusedDense if fused_bias_fc and bias else nn.Linear
        size = in_chans * self.patch_size[0] * self.patch_size[1]
        self.proj = layer(size, embed_dim, bias=bias)
        self.norm = norm_layer(embed_dim) if norm_layer else nn.Identity()

    def forward(self, x):
        if tuple(x.shape[-2:]) != self.img_size:
            raise ValueError(f"x: size {tuple(x.shape[-2:])}, expected {self.img_size}")
        p1, p2 = self.patch_size
        patches = x.unflatten(3, (-1, p2)).unflatten(2, (-1, p1))  # B C h p1 w p2
        patches = self.proj(patches.permute(0, 2, 4, 1, 3, 5).flatten(3))
        return self.norm(patches.flatten(1, 2) if self.flatten else patches)
