"""Baichuan's weights and configurations as those of models.gpt."""

from transformers import GPT2Config

from flash_attn.models._states import LAYER, MIXER, WORDS, joined, renamed, with_head

_RULES = (
    (r"model\.embed_tokens\.weight", WORDS),
    (r"model\.norm\.", "transformer.ln_f."),
    (r"model\.layers\.(\d+)\.input_layernorm\.", LAYER + "norm1."),
    (r"model\.layers\.(\d+)\.post_attention_layernorm\.", LAYER + "norm2."),
    (r"model\.layers\.(\d+)\.mlp\.down_proj\.", LAYER + "mlp.fc2."),
    (r"model\.layers\.(\d+)\.mlp\.", LAYER + "mlp."),
    (r"model\.layers\.(\d+)\.self_attn\.W_pack\.", MIXER + "Wqkv."),
    (r"model\.layers\.(\d+)\.self_attn\.o_proj\.", MIXER + "out_proj."),
    (r"model\.layers\.\d+\.self_attn\.rotary_emb\.", None),
)


def remap_state_dict_hf_baichuan(state_dict, config):
    state = joined(renamed(state_dict, _RULES), "fc1.", ("up_proj.", "gate_proj."))
    return with_head(state, config, config.tie_word_embeddings)


def baichuan_config_to_gpt2_config(baichuan_config):
    """What its configuration does not say follows from sizes: the large one has ALiBi, the
    second generation, of more words, a head that is normed."""
    is_rotary = baichuan_config.hidden_size < 5000
    return GPT2Config(
        vocab_size=baichuan_config.vocab_size,
        n_positions=0,
        n_embd=baichuan_config.hidden_size,
        n_layer=baichuan_config.num_hidden_layers,
        n_head=baichuan_config.num_attention_heads,
        n_inner=baichuan_config.intermediate_size,
        activation_function="swiglu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=baichuan_config.rms_norm_eps,
        initializer_range=baichuan_config.initializer_range,
        bos_token_id=baichuan_config.bos_token_id,
        eos_token_id=baichuan_config.eos_token_id,
        pad_token_id=baichuan_config.pad_token_id,
        rms_norm=True,
        rotary_emb_fraction=1.0 if is_rotary else 0.0,
        rotary_emb_interleaved=False,
        use_alibi=not is_rotary,
        use_flash_attn=not is_rotary,
        tie_word_embeddings=False,
        norm_head=baichuan_config.vocab_size > 70000,
        qkv_proj_bias=False,
        out_proj_bias=False,
        mlp_fc1_bias=False,
        mlp_fc2_bias=False,
    )
