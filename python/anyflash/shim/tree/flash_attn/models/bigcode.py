"""GPTBigCode's weights and configurations (StarCoder) as those of models.gpt."""

import torch
from transformers import GPT2Config

from flash_attn.models._states import (
    LAYER,
    MIXER,
    PLACES,
    WORDS,
    changed,
    renamed,
    with_head,
)

_RULES = (
    (r"transformer\.wte\.weight", WORDS),
    (r"transformer\.wpe\.", PLACES),
    (r"transformer\.h\.(\d+)\.ln_(1|2)\.", LAYER + r"norm\2."),
    (r"transformer\.h\.(\d+)\.mlp\.c_fc\.", LAYER + "mlp.fc1."),
    (r"transformer\.h\.(\d+)\.mlp\.c_proj\.", LAYER + "mlp.fc2."),
    (r"transformer\.h\.(\d+)\.attn\.c_attn\.", MIXER + "Wqkv."),
    (r"transformer\.h\.(\d+)\.attn\.c_proj\.", MIXER + "out_proj."),
)
_BACK = (
    (WORDS.replace(".", r"\."), "transformer.wte.weight"),
    (PLACES.replace(".", r"\."), "transformer.wpe."),
    (r"transformer\.layers\.(\d+)\.norm(1|2)\.", r"transformer.h.\1.ln_\2."),
    (r"transformer\.layers\.(\d+)\.mlp\.fc1\.", r"transformer.h.\1.mlp.c_fc."),
    (r"transformer\.layers\.(\d+)\.mlp\.fc2\.", r"transformer.h.\1.mlp.c_proj."),
    (r"transformer\.layers\.(\d+)\.mixer\.Wqkv\.", r"transformer.h.\1.attn.c_attn."),
    (r"transformer\.layers\.(\d+)\.mixer\.out_proj\.", r"transformer.h.\1.attn.c_proj."),
)
_FIELDS = (
    "activation_function attn_pdrop bos_token_id embd_pdrop eos_token_id initializer_range "
    "layer_norm_epsilon max_batch_size max_sequence_length multi_query n_embd n_head n_inner "
    "n_layer n_positions resid_pdrop scale_attn_weights summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj use_cache "
    "vocab_size"
).split()


def remap_state_dict_hf_bigcode(state_dict, config):
    """Its one head of keys and values is repeated for each head of queries."""
    if not config.multi_query:
        raise ValueError("multi_query: only models with it are known here")
    dim = config.n_embd // config.n_head

    def repeated(x):
        q, k, v = x.split([config.n_embd, dim, dim])
        return torch.cat([q, *[k] * config.n_head, *[v] * config.n_head])

    state = changed(renamed(state_dict, _RULES), r"mixer\.Wqkv\.(weight|bias)", repeated)
    return with_head(state, config, True, config.vocab_size)


def inv_remap_state_dict_hf_bigcode(state_dict, config):
    """Back, without the padding of words."""
    size, dim = config.n_embd, config.n_embd // config.n_head

    def once(x):
        return torch.cat([x[:size], x[size : size + dim], x[2 * size : 2 * size + dim]])

    state = renamed(changed(state_dict, r"mixer\.Wqkv\.(weight|bias)", once), _BACK)
    words = state["transformer.wte.weight"][: config.vocab_size]
    return {**state, "transformer.wte.weight": words, "lm_head.weight": words}


def bigcode_config_to_gpt2_config(bigcode_config):
    known = {n: getattr(bigcode_config, n) for n in _FIELDS if hasattr(bigcode_config, n)}
    return GPT2Config(**known)
