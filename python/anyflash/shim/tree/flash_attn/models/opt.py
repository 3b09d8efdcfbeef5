"""OPT's weights and configurations as those of models.gpt."""

from transformers import GPT2Config

from flash_attn.models._states import (
    LAYER,
    MIXER,
    PLACES,
    WORDS,
    changed,
    joined,
    renamed,
    with_head,
)

#: The smallest models begin with "decoder.", without "model.".
_DECODER = r"(?:model\.)?decoder\."
_RULES = (
    (_DECODER + r"embed_tokens\.weight", WORDS),
    (_DECODER + r"embed_positions\.", PLACES),
    (_DECODER + r"project_in\.", "transformer.embeddings.project_in."),
    (_DECODER + r"project_out\.", "project_out."),
    (_DECODER + r"(?:final_)?layer_norm\.", "transformer.ln_f."),
    (_DECODER + r"layers\.(\d+)\.self_attn_layer_norm\.", LAYER + "norm1."),
    (_DECODER + r"layers\.(\d+)\.final_layer_norm\.", LAYER + "norm2."),
    (_DECODER + r"layers\.(\d+)\.fc(1|2)\.", LAYER + r"mlp.fc\2."),
    (_DECODER + r"layers\.(\d+)\.self_attn\.", MIXER),
)


def remap_state_dict_hf_opt(state_dict, config):
    """Its first two positions are those of padding."""
    state = changed(renamed(state_dict, _RULES), r"position_embeddings\.weight", _from_third)
    state = joined(state, "Wqkv.", ("q_proj.", "k_proj.", "v_proj."))
    return with_head(state, config, True, config.vocab_size)


def _from_third(places):
    return places[2:]


def opt_config_to_gpt2_config(opt_config):
    if opt_config.layerdrop or not opt_config.layer_norm_elementwise_affine:
        raise ValueError("layerdrop and norms without weights are not known here")
    projected = opt_config.word_embed_proj_dim
    return GPT2Config(
        vocab_size=opt_config.vocab_size,
        n_positions=opt_config.max_position_embeddings,
        n_embd=opt_config.hidden_size,
        n_layer=opt_config.num_hidden_layers,
        n_head=opt_config.num_attention_heads,
        n_inner=opt_config.ffn_dim,
        activation_function=opt_config.activation_function,
        resid_pdrop=opt_config.dropout,
        embd_pdrop=opt_config.dropout,
        attn_pdrop=opt_config.attention_dropout,
        initializer_range=opt_config.init_std,
        bos_token_id=opt_config.bos_token_id,
        eos_token_id=opt_config.eos_token_id,
        prenorm=opt_config.do_layer_norm_before,
        word_embed_proj_dim=None if projected == opt_config.hidden_size else projected,
    )
