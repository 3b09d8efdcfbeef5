"""BTLM's weights and configurations as those of models.gpt."""

import torch
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

_RULES = (
    (r"transformer\.wte\.weight", WORDS),
    (r"transformer\.wpe\.", PLACES),
    (r"transformer\.h\.(\d+)\.ln_(1|2)\.", LAYER + r"norm\2."),
    (r"transformer\.h\.(\d+)\.mlp\.c_proj\.", LAYER + "mlp.fc2."),
    (r"transformer\.h\.(\d+)\.mlp\.", LAYER + "mlp."),
    (r"transformer\.h\.(\d+)\.attn\.c_attn\.", MIXER + "Wqkv."),
    (r"transformer\.h\.(\d+)\.attn\.c_proj\.", MIXER + "out_proj."),
    (r"transformer\.h\.\d+\.attn\.(masked_)?bias$", None),
    (r"transformer\.relative_pe\.", None),
)


def remap_state_dict_hf_btlm(state_dict, config):
    """Its weights are transposed, as GPT-2's."""
    state = renamed(state_dict, _RULES)
    state = changed(state, r"layers\.\d+\.(mlp|mixer)\.\w+\.weight", torch.t)
    state = joined(state, "fc1.", ("c_fc.", "c_fc2."))
    return with_head(state, config, True, config.vocab_size)


def btlm_config_to_gpt2_config(btlm_config):
    has_alibi = btlm_config.position_embedding_type == "alibi"
    return GPT2Config(
        vocab_size=btlm_config.vocab_size,
        n_positions=0 if has_alibi else btlm_config.n_positions,
        n_embd=btlm_config.hidden_size,
        n_layer=btlm_config.num_hidden_layers,
        n_head=btlm_config.num_attention_heads,
        n_inner=btlm_config.n_inner,
        activation_function=btlm_config.activation_function,
        resid_pdrop=btlm_config.resid_pdrop,
        embd_pdrop=btlm_config.embd_pdrop,
        attn_pdrop=btlm_config.attn_pdrop,
        layer_norm_epsilon=btlm_config.layer_norm_epsilon,
        initializer_range=btlm_config.initializer_range,
        bos_token_id=btlm_config.bos_token_id,
        eos_token_id=btlm_config.eos_token_id,
        use_alibi=has_alibi,
        use_flash_attn=has_alibi,
        mup_width_scale=btlm_config.mup_width_scale,
        mup_embeddings_multiplier=btlm_config.mup_embeddings_scale,
        mup_output_multiplier=btlm_config.mup_output_alpha,
        mup_scale_qk_dot_by_d=btlm_config.mup_scale_qk_dot_by_d,
        mlp_multiple_of=1,
    )
