"""The vision transformer: images [B, C, H, W] to classes."""

from functools import partial

import torch
import torch.nn as nn
from torch.nn.init import trunc_normal_

from flash_attn.layers.patch_embed import PatchEmbed
from flash_attn.models._states import renamed
from flash_attn.modules.block import Block, _DropPath
from flash_attn.modules.mha import MHA
from flash_attn.modules.mlp import FusedMLP, Mlp


def create_mixer_cls(
    num_heads, qkv_bias, attn_drop, use_flash_attn, fused_bias_fc, cross_attn=False
):
    return partial(
        MHA,
        num_heads=num_heads,
        cross_attn=cross_attn,
        qkv_proj_bias=qkv_bias,
        dropout=attn_drop,
        fused_bias_fc=fused_bias_fc,
        use_flash_attn=use_flash_attn,
    )


def create_mlp_cls(embed_dim, mlp_ratio, act_layer, fused_mlp):
    size = int(embed_dim * mlp_ratio)
    if fused_mlp:
        return partial(FusedMLP, hidden_features=size)
    return partial(Mlp, hidden_features=size, activation=act_layer())


def create_block(
    embed_dim,
    num_heads,
    mlp_ratio,
    qkv_bias,
    drop_rate,
    attn_drop_rate,
    drop_path1,
    drop_path2,
    norm_layer,
    act_layer,
    use_flash_attn,
    fused_bias_fc,
    fused_mlp,
    fused_dropout_add_ln,
    layer_idx=None,
    n_layer=None,
    last_layer_subset=False,
):
    """last_layer_subset: the last layer can ask for some rows, by cross attention."""
    is_cross = last_layer_subset and layer_idx == n_layer - 1
    mixer = create_mixer_cls(
        num_heads, qkv_bias, attn_drop_rate, use_flash_attn, fused_bias_fc, is_cross
    )
    return Block(
        embed_dim,
        mixer,
        create_mlp_cls(embed_dim, mlp_ratio, act_layer, fused_mlp),
        norm_cls=norm_layer,
        prenorm=True,
        resid_dropout1=drop_rate,
        resid_dropout2=drop_rate,
        drop_path1=drop_path1,
        drop_path2=drop_path2,
        fused_dropout_add_ln=fused_dropout_add_ln,
        residual_in_fp32=True,
    )


def init_weights_vit_timm(module: nn.Module, name: str = ""):
    """Of one module, as timm does."""
    if isinstance(module, nn.Linear):
        trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif hasattr(module, "init_weights"):
        module.init_weights()


class VisionTransformer(nn.Module):
    """By the token of classes: global_pool="token", class_token=True, no layer scale, no
    pre_norm, no fc_norm; ValueError for others."""

    def __init__(
        self,
        img_size=224,
        patch_size=16,
        in_chans=3,
        num_classes=1000,
        global_pool="token",
        embed_dim=768,
        depth=12,
        num_heads=12,
        mlp_ratio=4.0,
        qkv_bias=True,
        init_values=None,
        class_token=True,
        no_embed_class=False,
        pre_norm=False,
        fc_norm=None,
        drop_rate=0.0,
        attn_drop_rate=0.0,
        drop_path_rate=0.0,
        weight_init="",
        embed_layer=PatchEmbed,
        norm_layer=None,
        act_layer=None,
        use_flash_attn=False,
        fused_bias_fc=False,
        fused_mlp=False,
        fused_dropout_add_ln=False,
    ):
        super().__init__()
        given = (global_pool, class_token, init_values, pre_norm, fc_norm, weight_init)
        if given != ("token", True, None, False, None, ""):
            raise ValueError(
                "global_pool, class_token, init_values, pre_norm, fc_norm and weight_init: "
                "only the defaults are known"
            )
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.num_classes, self.global_pool = num_classes, global_pool
        self.num_features = self.embed_dim = embed_dim
        self.num_prefix_tokens, self.no_embed_class = 1, no_embed_class
        self.fused_dropout_add_ln = fused_dropout_add_ln
        extra = {"fused_bias_fc": fused_bias_fc} if embed_layer is PatchEmbed else {}
        self.patch_embed = embed_layer(
            img_size=img_size,
            patch_size=patch_size,
            in_chans=in_chans,
            embed_dim=embed_dim,
            bias=True,
            **extra,
        )
        places = self.patch_embed.num_patches + (0 if no_embed_class else 1)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, places, embed_dim))
        paths = torch.linspace(0, drop_path_rate, depth).tolist()
        self.blocks = nn.ModuleList(
            [
                create_block(
                    embed_dim,
                    num_heads,
                    mlp_ratio,
                    qkv_bias,
                    drop_rate,
                    attn_drop_rate,
                    paths[i - 1] if i > 0 else 0.0,
                    paths[i],
                    norm_layer,
                    act_layer or nn.GELU,
                    use_flash_attn,
                    fused_bias_fc,
                    fused_mlp,
                    fused_dropout_add_ln,
                    layer_idx=i,
                    n_layer=depth,
                    last_layer_subset=True,
                )
                for i in range(depth)
            ]
        )
        self.dropout, self.drop_path = nn.Dropout(drop_rate), _DropPath(paths[-1])
        self.norm = norm_layer(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes) if num_classes > 0 else nn.Identity()
        self.init_weights(weight_init)

    def init_weights(self, mode=""):
        trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        for module in self.modules():
            if module is not self:
                init_weights_vit_timm(module)

    def _init_weights(self, m):
        init_weights_vit_timm(m)

    def no_weight_decay(self):
        return {"pos_embed", "cls_token"}

    def _placed(self, x):
        """With the token of classes and the embeddings of places."""
        first = self.cls_token.expand(x.shape[0], -1, -1)
        if self.no_embed_class:
            return torch.cat((first, x + self.pos_embed), dim=1)
        return torch.cat((first, x), dim=1) + self.pos_embed

    def forward_features(self, x, all_tokens=True):
        """[B, 1 + patches, E]; without all_tokens the last layer is computed for the token
        of classes only: [B, 1, E]."""
        x, residual = self._placed(self.patch_embed(x)), None
        for block in self.blocks[:-1]:
            x, residual = block(x, residual)
        subset = None if all_tokens else slice(0, 1)
        x, residual = self.blocks[-1](x, residual, mixer_subset=subset)
        residual = self.drop_path(self.dropout(x)) + residual
        return self.norm(residual.to(self.norm.weight.dtype))

    def forward_head(self, x, pre_logits: bool = False):
        return x[:, 0] if pre_logits else self.head(x[:, 0])

    def forward(self, x):
        return self.forward_head(self.forward_features(x, all_tokens=False))

    def load_state_dict(self, state_dict, strict=True):
        """Also timm's: its patches are a convolution, its last layer has one Wqkv."""
        state = renamed(
            state_dict,
            (
                (r"blocks\.(\d+)\.attn\.qkv\.", r"blocks.\1.mixer.Wqkv."),
                (r"blocks\.(\d+)\.attn\.proj\.", r"blocks.\1.mixer.out_proj."),
            ),
        )
        patches = state.get("patch_embed.proj.weight")
        if patches is not None and patches.dim() == 4:
            state["patch_embed.proj.weight"] = patches.flatten(1)
        last = f"blocks.{len(self.blocks) - 1}.mixer."
        for kind in ("weight", "bias"):
            joint = state.pop(f"{last}Wqkv.{kind}", None)
            if joint is not None:
                sizes = [self.embed_dim, joint.shape[0] - self.embed_dim]
                state[f"{last}Wq.{kind}"], state[f"{last}Wkv.{kind}"] = joint.split(sizes)
        return super().load_state_dict(state, strict=strict)


def vit_base_patch16_224(pretrained=False, **kwargs):
    """ViT-B/16 with random weights; there are no others here."""
    if pretrained:
        raise ValueError("pretrained: there are no weights")
    return VisionTransformer(patch_size=16, embed_dim=768, depth=12, num_heads=12, **kwargs)
