"""GPT-J's weights and configurations as those of models.gpt."""

from transformers import GPT2Config

from flash_attn.models._states import LAYER, MIXER, WORDS, joined, renamed, with_head

_RULES = (
    (r"transformer\.wte\.weight", WORDS),
    (r"transformer\.h\.(\d+)\.ln_1\.", LAYER + "norm1."),
    (r"transformer\.h\.(\d+)\.mlp\.fc_in\.", LAYER + "mlp.fc1."),
    (r"transformer\.h\.(\d+)\.mlp\.fc_out\.", LAYER + "mlp.fc2."),
    (r"transformer\.h\.\d+\.attn\.(masked_bias|bias|embed_positions)$", None),
    (r"transformer\.h\.(\d+)\.attn\.", MIXER),
)


def remap_state_dict_hf_gptj(state_dict, config):
    state = joined(renamed(state_dict, _RULES), "Wqkv.", ("q_proj.", "k_proj.", "v_proj."))
    return with_head(state, config, config.tie_word_embeddings, config.vocab_size)


def gptj_config_to_gpt2_config(gptj_config):
    head_dim = gptj_config.n_embd // gptj_config.n_head
    return GPT2Config(
        vocab_size=gptj_config.vocab_size,
        n_positions=0,
        n_embd=gptj_config.n_embd,
        n_layer=gptj_config.n_layer,
        n_head=gptj_config.n_head,
        n_inner=gptj_config.n_inner,
        activation_function=gptj_config.activation_function,
        resid_pdrop=gptj_config.resid_pdrop,
        embd_pdrop=gptj_config.embd_pdrop,
        attn_pdrop=gptj_config.attn_pdrop,
        layer_norm_epsilon=gptj_config.layer_norm_epsilon,
        initializer_range=gptj_config.initializer_range,
        bos_token_id=gptj_config.bos_token_id,
        eos_token_id=gptj_config.eos_token_id,
        prenorm=True,
        parallel_block=True,
        parallel_block_tied_norm=True,
        rotary_emb_fraction=gptj_config.rotary_dim / head_dim,
        rotary_emb_interleaved=True,
        tie_word_embeddings=False,
        qkv_proj_bias=False,
        out_proj_bias=False,
        lm_head_bias=True,
    )
