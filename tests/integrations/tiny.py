"""Tiny models with random weights, made in code: nothing is downloaded."""

import torch
import transformers as hf

_SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
#: By name: configuration, model class, and what is special about the model.
_DECODERS = {
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, {}),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, {"head_dim": 32}),
    "gemma2": (
        hf.Gemma2Config,
        hf.Gemma2ForCausalLM,
        {
            "head_dim": 16,
            "sliding_window": 8,
            "attn_logit_softcapping": 5.0,
            "query_pre_attn_scalar": 16,
        },
    ),
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM, {"sliding_window": 8}),
    "gptoss": (
        hf.GptOssConfig,
        hf.GptOssForCausalLM,
        {
            "head_dim": 16,
            "sliding_window": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
}
DECODERS = tuple(_DECODERS)


def decoder(name, dtype=torch.float32, **changes):
    """The decoder `name` of DECODERS, with the same random weights each time.

    Weights are scaled up so that attention is far from uniform and a wrong key changes tokens.
    """
    config, model, special = _DECODERS[name]
    torch.manual_seed(1)
    made = model(config(**{**_SIZES, **special, **changes})).eval()
    with torch.no_grad():
        for key, weight in made.named_parameters():
            if key.endswith(("q_proj.weight", "k_proj.weight")):
                weight.mul_(8.0)
            elif key.endswith("sinks"):
                weight.normal_()
    return made.to(dtype)


#: By name: a model like those of _DECODERS, with as many key heads as query heads.
_WIDE = {
    "llama": lambda sizes: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)),
    "mistral": lambda sizes: hf.MistralForCausalLM(
        hf.MistralConfig(**sizes, sliding_window=21)
    ),
    "gpt2": lambda sizes: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=sizes["vocab_size"],
            n_embd=sizes["hidden_size"],
            n_head=sizes["num_attention_heads"],
            n_layer=sizes["num_hidden_layers"],
            bos_token_id=1,
            eos_token_id=None,
        )
    ),
}
WIDE = tuple(_WIDE)


def wide(name, head_dim, dtype=torch.float32):
    """The model `name` of WIDE with two heads as large as those of real models, and matrices
    scaled up so that a wrong key changes the logits."""
    torch.manual_seed(1)
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "hidden_size": 2 * head_dim}
    made = _WIDE[name]({**_SIZES, **heads}).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() == 2:
                weight.mul_(3.0)
    return made.to(dtype)


def bert(**changes):
    torch.manual_seed(1)
    sizes = {k: v for k, v in _SIZES.items() if "key_value" not in k}
    made = hf.BertModel(hf.BertConfig(**{**sizes, **changes}), add_pooling_layer=False)
    return made.eval()


def bert_lm(dtype=torch.float32, is_decoder=False):
    """Tokens for all positions at once (masked models), or generated one by one (decoders)."""
    torch.manual_seed(1)
    sizes = {k: v for k, v in _SIZES.items() if "key_value" not in k}
    kind = hf.BertLMHeadModel if is_decoder else hf.BertForMaskedLM
    made = kind(hf.BertConfig(**sizes, is_decoder=is_decoder)).eval()
    with torch.no_grad():
        for key, weight in made.named_parameters():
            if key.endswith(("query.weight", "key.weight")):
                weight.mul_(8.0)
            elif key.endswith("embeddings.weight"):
                weight.normal_()
    return made.to(dtype)


def tokens(batch=2, length=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, 128, (batch, length), generator=generator)


def padding(batch=2, length=20, side="left", count=5):
    """The attention mask: the first sequence has `count` padding tokens, the others none."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, slice(0, count) if side == "left" else slice(length - count, length)] = 0
    return mask
