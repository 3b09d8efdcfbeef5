"""GPT-NeoX's weights and configurations as those of models.gpt."""

from transformers import GPT2Config

from flash_attn.models._states import (
    LAYER,
    MIXER,
    WORDS,
    changed,
    heads_apart,
    renamed,
    rope,
    with_head,
)

_RULES = (
    (r"gpt_neox\.embed_in\.weight", WORDS),
    (r"gpt_neox\.final_layer_norm\.", "transformer.ln_f."),
    (r"gpt_neox\.layers\.(\d+)\.input_layernorm\.", LAYER + "norm1."),
    (r"gpt_neox\.layers\.(\d+)\.post_attention_layernorm\.", LAYER + "norm2."),
    (r"gpt_neox\.layers\.(\d+)\.mlp\.dense_h_to_4h\.", LAYER + "mlp.fc1."),
    (r"gpt_neox\.layers\.(\d+)\.mlp\.dense_4h_to_h\.", LAYER + "mlp.fc2."),
    (r"gpt_neox\.layers\.(\d+)\.attention\.query_key_value\.", MIXER + "Wqkv."),
    (r"gpt_neox\.layers\.(\d+)\.attention\.dense\.", MIXER + "out_proj."),
    (r"gpt_neox\.layers\.\d+\.attention\.", None),
)


def remap_state_dict_hf_gpt_neox(state_dict, config):
    """Its Wqkv has the three of a head beside each other."""
    turn = heads_apart(config.hidden_size // config.num_attention_heads)
    state = changed(renamed(state_dict, _RULES), r"mixer\.Wqkv\.(weight|bias)", turn)
    tied = getattr(config, "tie_word_embeddings", False)
    return with_head(state, config, tied, config.vocab_size, head="embed_out.")


def gpt_neox_config_to_gpt2_config(gpt_neox_config):
    base = getattr(gpt_neox_config, "rotary_emb_base", None)
    if (base or rope(gpt_neox_config, "rope_theta", 10000)) != 10000:
        raise ValueError("rotary_emb_base: expected 10000")
    fraction = getattr(gpt_neox_config, "rotary_pct", None)
    if fraction is None:
        fraction = rope(gpt_neox_config, "partial_rotary_factor", 0.25)
    return GPT2Config(
        vocab_size=gpt_neox_config.vocab_size,
        n_positions=0,
        n_embd=gpt_neox_config.hidden_size,
        n_layer=gpt_neox_config.num_hidden_layers,
        n_head=gpt_neox_config.num_attention_heads,
        n_inner=gpt_neox_config.intermediate_size,
        activation_function=gpt_neox_config.hidden_act,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=gpt_neox_config.layer_norm_eps,
        initializer_range=gpt_neox_config.initializer_range,
        bos_token_id=gpt_neox_config.bos_token_id,
        eos_token_id=gpt_neox_config.eos_token_id,
        prenorm=True,
        parallel_block=gpt_neox_config.use_parallel_residual,
        parallel_block_tied_norm=False,
        rotary_emb_fraction=fraction,
        tie_word_embeddings=gpt_neox_config.tie_word_embeddings,
    )
