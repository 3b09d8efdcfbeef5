"""Llama's weights and configurations as those of models.gpt."""

import json
from pathlib import Path

import torch
from transformers import GPT2Config, LlamaConfig

from flash_attn.models._states import (
    LAYER,
    MIXER,
    WORDS,
    changed,
    joined,
    padded,
    renamed,
    rope,
    with_head,
)

_META = (
    (r"tok_embeddings\.weight", WORDS),
    (r"norm\.", "transformer.ln_f."),
    (r"output\.weight", "output.weight"),
    (r"layers\.(\d+)\.attention_norm\.", LAYER + "norm1."),
    (r"layers\.(\d+)\.ffn_norm\.", LAYER + "norm2."),
    (r"layers\.(\d+)\.feed_forward\.w2\.", LAYER + "mlp.fc2."),
    (r"layers\.(\d+)\.feed_forward\.", LAYER + "mlp."),
    (r"layers\.(\d+)\.attention\.wo\.", MIXER + "out_proj."),
    (r"layers\.\d+\.attention\.inner_attention\.", None),
    (r"layers\.(\d+)\.attention\.", MIXER),
    (r"rope\.freqs", None),
)
_HF = (
    (r"model\.embed_tokens\.weight", WORDS),
    (r"model\.norm\.", "transformer.ln_f."),
    (r"model\.layers\.(\d+)\.input_layernorm\.", LAYER + "norm1."),
    (r"model\.layers\.(\d+)\.post_attention_layernorm\.", LAYER + "norm2."),
    (r"model\.layers\.(\d+)\.mlp\.down_proj\.", LAYER + "mlp.fc2."),
    (r"model\.layers\.(\d+)\.mlp\.", LAYER + "mlp."),
    (r"model\.layers\.(\d+)\.self_attn\.o_proj\.", MIXER + "out_proj."),
    (r"model\.layers\.\d+\.self_attn\.rotary_emb\.", None),
    (r"model\.layers\.(\d+)\.self_attn\.", MIXER),
)
_BACK = (
    (WORDS.replace(".", r"\."), "model.embed_tokens.weight"),
    (r"transformer\.ln_f\.", "model.norm."),
    (r"transformer\.layers\.(\d+)\.norm1\.", r"model.layers.\1.input_layernorm."),
    (r"transformer\.layers\.(\d+)\.norm2\.", r"model.layers.\1.post_attention_layernorm."),
    (r"transformer\.layers\.(\d+)\.mlp\.fc2\.", r"model.layers.\1.mlp.down_proj."),
    (r"transformer\.layers\.(\d+)\.mlp\.", r"model.layers.\1.mlp."),
    (r"transformer\.layers\.(\d+)\.mixer\.out_proj\.", r"model.layers.\1.self_attn.o_proj."),
    (r"transformer\.layers\.(\d+)\.mixer\.", r"model.layers.\1.self_attn."),
    (r"transformer\.layers\.\d+\.attention\.inner_attention\.", None),
)


def remap_state_dict_meta_llama(state_dict, config):
    """Of Meta's own checkpoints."""
    state = renamed(state_dict, _META)
    state = joined(state, "fc1.", ("w3.", "w1."))  # ours begins with what is not gated
    state = joined(state, "Wqkv.", ("wq.", "wk.", "wv."))
    return with_head(state, config, config.tie_word_embeddings, head="output.")


def remap_state_dict_hf_llama(state_dict, config):
    """Of transformers: it rotates halves of a head, ours pairs beside each other."""
    pairs = config.n_embd // config.n_head // 2

    def in_pairs(x):
        return x.unflatten(0, (-1, 2, pairs)).transpose(1, 2).flatten(0, 2)

    state = changed(renamed(state_dict, _HF), r"mixer\.[qk]_proj\.weight", in_pairs)
    state = joined(state, "fc1.", ("up_proj.", "gate_proj."))
    state = joined(state, "Wqkv.", ("q_proj.", "k_proj.", "v_proj."))
    return with_head(state, config, config.tie_word_embeddings)


def inv_remap_state_dict_hf_llama(state_dict, config):
    """Back, but for the padding of words."""
    pairs = config.n_embd // config.n_head // 2
    dim = 2 * pairs
    kv_heads = getattr(config, "n_head_kv", None) or config.n_head
    sizes = [heads * dim for heads in (config.n_head, kv_heads, kv_heads)]

    def in_halves(x):
        return x.unflatten(0, (-1, pairs, 2)).transpose(1, 2).flatten(0, 2)

    state = {}
    for name, x in state_dict.items():
        if name.endswith("mixer.Wqkv.weight"):
            q, k, v = x.split(sizes)
            for letter, part in zip("qkv", (in_halves(q), in_halves(k), v)):
                state[name.replace("Wqkv", f"{letter}_proj")] = part
        elif name.endswith("mlp.fc1.weight"):
            state[name.replace("fc1", "up_proj")], state[name.replace("fc1", "gate_proj")] = (
                x.chunk(2)
            )
        else:
            state[name] = x
    state = renamed(state, _BACK)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in state:
            state[name] = padded(state[name], config)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def _inner_size(params):
    """Two thirds of four times the size, rounded up to a multiple: Meta's rule."""
    size = int(2 * (4 * params["dim"]) / 3)
    if params.get("ffn_dim_multiplier") is not None:
        size = int(params["ffn_dim_multiplier"] * size)
    multiple = params.get("multiple_of", 1)
    return -(-size // multiple) * multiple


def _vocabulary(folder):
    """Of tokenizer.model; params.json does not say it."""
    tokenizer = folder / "tokenizer.model"
    if not tokenizer.is_file():
        return 32000
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(str(tokenizer)).vocab_size()


def config_from_meta_checkpoint(checkpoint_path, model_name):
    """LlamaConfig of the params.json of one of Meta's checkpoints."""
    folder = Path(checkpoint_path) / model_name
    params = json.loads((folder / "params.json").read_text())
    config = LlamaConfig(
        vocab_size=_vocabulary(folder),
        hidden_size=params["dim"],
        intermediate_size=_inner_size(params),
        num_attention_heads=params["n_heads"],
        num_hidden_layers=params["n_layers"],
        num_key_value_heads=params.get("n_kv_heads"),
        rms_norm_eps=params["norm_eps"],
    )
    if "rope_theta" in params:
        config.rotary_emb_base = params["rope_theta"]
    return config


def config_from_hf_checkpoint(checkpoint_path, model_name):
    folder = Path(checkpoint_path) / f"{model_name}-hf"
    return LlamaConfig.from_pretrained(folder / "config.json")


def config_from_checkpoint(checkpoint_path, model_name, checkpoint_format="meta"):
    """checkpoint_format: "meta" or "hf"."""
    if checkpoint_format == "meta":
        return config_from_meta_checkpoint(checkpoint_path, model_name)
    return config_from_hf_checkpoint(checkpoint_path, model_name)


def state_dicts_from_checkpoint(checkpoint_path, model_name):
    """The parts of one of Meta's checkpoints, in their order."""
    files = sorted((Path(checkpoint_path) / model_name).glob("consolidated.*.pth"))
    return [torch.load(path, map_location="cpu", weights_only=True) for path in files]


def llama_config_to_gpt2_config(llama_config):
    base = getattr(llama_config, "rotary_emb_base", rope(llama_config, "rope_theta", 10000.0))
    return GPT2Config(
        vocab_size=llama_config.vocab_size,
        n_positions=0,
        n_embd=llama_config.hidden_size,
        n_layer=llama_config.num_hidden_layers,
        n_head=llama_config.num_attention_heads,
        n_head_kv=llama_config.num_key_value_heads,
        n_inner=llama_config.intermediate_size,
        activation_function="swiglu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        layer_norm_epsilon=llama_config.rms_norm_eps,
        initializer_range=llama_config.initializer_range,
        bos_token_id=llama_config.bos_token_id,
        eos_token_id=llama_config.eos_token_id,
        pad_token_id=llama_config.pad_token_id,
        rms_norm=True,
        rotary_emb_fraction=1.0,
        rotary_emb_interleaved=True,
        rotary_emb_base=base,
        tie_word_embeddings=False,
        qkv_proj_bias=False,
        out_proj_bias=False,
        mlp_fc1_bias=False,
        mlp_fc2_bias=False,
    )
