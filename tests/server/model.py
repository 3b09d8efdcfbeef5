"""Writes a small Llama with random weights and its tokenizer into a folder, for vLLM.

    python model.py FOLDER
"""

import json
import pathlib
import sys

import safetensors.torch
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = 1024
LAYERS, HIDDEN, HEADS, GROUPS, DIM, INNER = 4, 512, 8, 2, 64, 1024
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": WORDS,
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "head_dim": DIM,
    "intermediate_size": INNER,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "float32",
}


def weights():
    random = torch.Generator().manual_seed(1)

    def matrix(rows, columns):
        return torch.randn(rows, columns, generator=random) / columns**0.5

    made = {
        # Words far apart, and large logits: few steps whose two best words are level.
        "model.embed_tokens.weight": torch.randn(WORDS, HIDDEN, generator=random),
        "lm_head.weight": 4 * matrix(WORDS, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        made[at + "input_layernorm.weight"] = torch.ones(HIDDEN)
        made[at + "post_attention_layernorm.weight"] = torch.ones(HIDDEN)
        # Scores with a standard deviation of 2: attention that chooses.
        made[at + "self_attn.q_proj.weight"] = 2 * matrix(HEADS * DIM, HIDDEN)
        made[at + "self_attn.k_proj.weight"] = matrix(GROUPS * DIM, HIDDEN)
        made[at + "self_attn.v_proj.weight"] = matrix(GROUPS * DIM, HIDDEN)
        made[at + "self_attn.o_proj.weight"] = matrix(HIDDEN, HEADS * DIM)
        made[at + "mlp.gate_proj.weight"] = matrix(INNER, HIDDEN)
        made[at + "mlp.up_proj.weight"] = matrix(INNER, HIDDEN)
        made[at + "mlp.down_proj.weight"] = matrix(HIDDEN, INNER)
    return made


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    words = {"<s>": 0, "</s>": 1, "<unk>": 2, **{f"w{i}": i for i in range(3, WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    settings |= {"eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    safetensors.torch.save_file(weights(), folder / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main(sys.argv[1])
