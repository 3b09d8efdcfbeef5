"""Falcon's weights and configurations as those of models.gpt."""

import torch
from transformers import GPT2Config

from flash_attn.models._states import (
    LAYER,
    MIXER,
    WORDS,
    changed,
    first_of,
    renamed,
    with_head,
)

_RULES = (
    (r"transformer\.word_embeddings\.weight", WORDS),
    (r"transformer\.h\.(\d+)\.(input_layernorm|ln_attn)\.", LAYER + "norm1."),
    (r"transformer\.h\.(\d+)\.(post_attention_layernorm|ln_mlp)\.", LAYER + "norm2."),
    (r"transformer\.h\.(\d+)\.mlp\.dense_h_to_4h\.", LAYER + "mlp.fc1."),
    (r"transformer\.h\.(\d+)\.mlp\.dense_4h_to_h\.", LAYER + "mlp.fc2."),
    (r"transformer\.h\.(\d+)\.self_attention\.query_key_value\.", MIXER + "Wqkv."),
    (r"transformer\.h\.(\d+)\.self_attention\.dense\.", MIXER + "out_proj."),
)


def remap_state_dict_hf_falcon(state_dict, config):
    """Its Wqkv has the queries of each key head beside it."""
    kv_heads = getattr(config, "n_head_kv", 1)
    ratio, dim = config.n_head // kv_heads, config.hidden_size // config.n_head

    def apart(x):
        groups = x.unflatten(0, (kv_heads, ratio + 2, dim)).split([ratio, 1, 1], 1)
        return torch.cat([part.flatten(0, 2) for part in groups])

    state = changed(renamed(state_dict, _RULES), r"mixer\.Wqkv\.weight", apart)
    return with_head(state, config, config.tie_word_embeddings, config.vocab_size)


def _kv_heads(config, heads):
    """(heads of keys, whether MLP and attention have norms of their own): the first ones on
    the hub say n_head_kv, and transformers a new architecture, which has two norms."""
    if hasattr(config, "n_head_kv"):
        return config.n_head_kv, config.n_head_kv != 1
    if getattr(config, "new_decoder_architecture", False):
        return config.num_kv_heads, True
    return 1 if getattr(config, "multi_query", False) else heads, False


def falcon_config_to_gpt2_config(falcon_config):
    heads = first_of(falcon_config, "n_head", "num_attention_heads")
    kv_heads, has_two_norms = _kv_heads(falcon_config, heads)
    return GPT2Config(
        vocab_size=falcon_config.vocab_size,
        n_positions=0,
        n_embd=falcon_config.hidden_size,
        n_layer=first_of(falcon_config, "n_layer", "num_hidden_layers"),
        n_head=heads,
        n_head_kv=kv_heads,
        n_inner=4 * falcon_config.hidden_size,
        activation_function="gelu",
        resid_pdrop=falcon_config.hidden_dropout,
        embd_pdrop=0.0,
        attn_pdrop=falcon_config.attention_dropout,
        layer_norm_epsilon=falcon_config.layer_norm_epsilon,
        initializer_range=falcon_config.initializer_range,
        bos_token_id=falcon_config.bos_token_id,
        eos_token_id=falcon_config.eos_token_id,
        parallel_block=falcon_config.parallel_attn,
        parallel_block_tied_norm=not has_two_norms,
        rotary_emb_fraction=1.0,
        rotary_emb_interleaved=False,
        tie_word_embeddings=True,
        qkv_proj_bias=falcon_config.bias,
        out_proj_bias=falcon_config.bias,
        mlp_fc1_bias=falcon_config.bias,
        mlp_fc2_bias=falcon_config.bias,
        lm_head_bias=False,
    )
