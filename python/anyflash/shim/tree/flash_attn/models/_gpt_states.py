"""State dicts of models.gpt: those of GPT-2 and Megatron, and their parts over processes."""

import torch

from flash_attn.models._states import (
    LAYER,
    MIXER,
    PLACES,
    WORDS,
    changed,
    heads_apart,
    renamed,
    with_head,
)
from flash_attn.utils.distributed import get_dim_for_local_rank

_GPT2 = (
    (r"wte\.weight", WORDS),
    (r"wpe\.", PLACES),
    (r"ln_f\.", "transformer.ln_f."),
    (r"h\.(\d+)\.ln_(1|2)\.", LAYER + r"norm\2."),
    (r"h\.(\d+)\.mlp\.c_fc\.", LAYER + "mlp.fc1."),
    (r"h\.(\d+)\.mlp\.c_proj\.", LAYER + "mlp.fc2."),
    (r"h\.(\d+)\.attn\.c_attn\.", MIXER + "Wqkv."),
    (r"h\.(\d+)\.attn\.c_proj\.", MIXER + "out_proj."),
    (r"h\.\d+\.attn\.(masked_)?bias$", None),
)
_MEGATRON = (
    (r"language_model\.embedding\.word_embeddings\.weight", WORDS),
    (r"wpe\.", PLACES),
    (r"language_model\.encoder\.final_layernorm\.", "transformer.ln_f."),
    (r"language_model\.encoder\.layers\.(\d+)\.input_layernorm\.", LAYER + "norm1."),
    (r"language_model\.encoder\.layers\.(\d+)\.post_attention_layernorm\.", LAYER + "norm2."),
    (r"language_model\.encoder\.layers\.(\d+)\.mlp\.dense_h_to_4h\.", LAYER + "mlp.fc1."),
    (r"language_model\.encoder\.layers\.(\d+)\.mlp\.dense_4h_to_h\.", LAYER + "mlp.fc2."),
    (r"language_model\.encoder\.layers\.(\d+)\.self_attention\.rotary_emb\.",
     MIXER + "rotary_emb."),
    (r"language_model\.encoder\.layers\.(\d+)\.self_attention\.query_key_value\.",
     MIXER + "Wqkv."),
    (r"language_model\.encoder\.layers\.(\d+)\.self_attention\.dense\.", MIXER + "out_proj."),
    (r"language_model\.(encoder\.)?", "transformer."),
)


def remap_state_dict_hf_gpt2(state_dict, config):
    """Of transformers' GPT2Model: its weights are transposed."""
    state = renamed(state_dict, _GPT2)
    state = changed(state, r"layers\.\d+\.(mlp|mixer)\.\w+\.weight", torch.t)
    return with_head(state, config, True, config.vocab_size)


def remap_state_dict_megatron(state_dict, config):
    """Of Megatron-LM: its Wqkv has the three of a head beside each other."""
    state = renamed(state_dict, _MEGATRON)
    turn = heads_apart(config.hidden_size // config.num_attention_heads)
    return with_head(changed(state, r"mixer\.Wqkv\.(weight|bias)", turn), config, True)


class _Parts:
    """How the tensors of a model are split over `world` processes."""

    def __init__(self, config, world):
        self.config, self.world = config, world
        self.heads = config.n_head
        self.kv_heads = getattr(config, "n_head_kv", None) or self.heads
        self.head_dim = config.hidden_size // self.heads
        self.is_gated = config.activation_function in ("glu", "swiglu", "geglu")

    def sizes(self, total, multiple=1):
        return [get_dim_for_local_rank(total, self.world, r, multiple) for r in
                range(self.world)]

    def split(self, name, x):
        """The parts of tensor `name`; None: each has all of it."""
        kind = ".".join(name.split(".")[-2:])
        if kind in ("Wqkv.weight", "Wqkv.bias"):
            groups = (self.heads, self.kv_heads, self.kv_heads)
            parts = [
                part.split(self.sizes(heads * self.head_dim, self.head_dim))
                for heads, part in zip(
                    groups, x.split([heads * self.head_dim for heads in groups])
                )
            ]
            return [torch.cat(mine) for mine in zip(*parts)]
        if kind in ("fc1.weight", "fc1.bias") and self.is_gated:
            halves = [half.split(self.sizes(half.shape[0])) for half in x.chunk(2)]
            return [torch.cat(mine) for mine in zip(*halves)]
        if kind in ("fc1.weight", "fc1.bias", "word_embeddings.weight", "lm_head.weight",
                    "lm_head.bias"):
            return x.split(self.sizes(x.shape[0]))
        if kind in ("position_embeddings.weight", "fc2.weight"):
            return x.split(self.sizes(x.shape[-1]), -1)
        if kind == "out_proj.weight":
            return x.split(self.sizes(x.shape[-1], self.head_dim), -1)
        return None

    def join(self, name, parts):
        """The tensor of which split() gives the parts: each element finds its place."""
        kind = ".".join(name.split(".")[-2:])
        last = kind in ("position_embeddings.weight", "fc2.weight", "out_proj.weight")
        whole = torch.cat(parts, -1 if last else 0)
        if kind == "word_embeddings.weight" and parts[0].shape[0] == self.config.vocab_size:
            return torch.cat(parts, 1)  # split by columns
        places = torch.arange(whole.shape[0])
        order = self.split(name, places) if not last else None
        if order is None:
            return whole if self.split(name, whole) is not None else parts[0]
        return whole[torch.argsort(torch.cat(order))]


def shard_state_dict_tp(state_dict, config, world_size, rank):
    """The part of process `rank`; changes state_dict, too. Biases that are added after the
    sum over processes are the first one's."""
    parts = _Parts(config, world_size)
    for name in list(state_dict):
        if rank and name.endswith((".out_proj.bias", ".fc2.bias")):
            del state_dict[name]
            continue
        found = parts.split(name, state_dict[name])
        if found is not None:
            state_dict[name] = found[rank]
    return state_dict


def combine_state_dicts_tp(state_dicts, config):
    """The whole of what shard_state_dict_tp() gave each process, in their order."""
    parts = _Parts(config, len(state_dicts))
    return {
        name: parts.join(name, [state[name] for state in state_dicts if name in state])
        for name in state_dicts[0]
    }
