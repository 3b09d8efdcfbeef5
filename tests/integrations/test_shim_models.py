"""flash_attn.models of the shim: transformers' weights give transformers' logits."""

import importlib
import inspect
import json
import pathlib
import sys

import pytest
import torch
import transformers as hf

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "anyflash" / "shim" / "tree"))

from flash_attn.models import baichuan, bert, bigcode, btlm, falcon, gpt  # noqa: E402
from flash_attn.models import gpt_neox, gptj, llama, opt, vit  # noqa: E402
from flash_attn.utils.generation import InferenceParams  # noqa: E402
from flash_attn.utils.pretrained import state_dict_from_pretrained  # noqa: E402

PUBLIC = json.loads((ROOT / "tests" / "python" / "flash_attn_public.json").read_text())
NAMES = [
    (module, name)
    for module, names in PUBLIC.items()
    if module.startswith("flash_attn.models")
    for name in names
]
GPT = {"vocab_size": 101, "n_embd": 64, "n_layer": 2, "n_head": 4}
BY_NAME = {
    "vocab_size": 101,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def _same(config):
    return config


def _llama():
    config = hf.LlamaConfig(**BY_NAME, num_key_value_heads=2, tie_word_embeddings=False)
    return hf.LlamaForCausalLM(config), llama.llama_config_to_gpt2_config


def _falcon(**options):
    sizes = {key: value for key, value in BY_NAME.items() if key != "intermediate_size"}
    config = hf.FalconConfig(**sizes, **options, bias=False, alibi=False)
    return hf.FalconForCausalLM(config), falcon.falcon_config_to_gpt2_config


def _opt(before, projected):
    sizes = {key: value for key, value in BY_NAME.items() if key != "intermediate_size"}
    config = hf.OPTConfig(
        **sizes,
        ffn_dim=96,
        word_embed_proj_dim=projected,
        do_layer_norm_before=before,
        max_position_embeddings=64,
    )
    return hf.OPTForCausalLM(config), opt.opt_config_to_gpt2_config


def _neox(parallel):
    config = hf.GPTNeoXConfig(
        **BY_NAME, use_parallel_residual=parallel, tie_word_embeddings=False
    )
    return hf.GPTNeoXForCausalLM(config), gpt_neox.gpt_neox_config_to_gpt2_config


#: By name: what makes transformers' model and the function of its configuration; of its
#: state dict; and what its names begin with where ours have nothing.
FAMILIES = {
    "gpt2": (
        lambda: (hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)), _same),
        gpt.remap_state_dict_hf_gpt2,
        "transformer.",
    ),
    "llama": (_llama, llama.remap_state_dict_hf_llama, ""),
    "falcon of one key head": (
        lambda: _falcon(multi_query=True), falcon.remap_state_dict_hf_falcon, ""
    ),
    "falcon": (lambda: _falcon(multi_query=False), falcon.remap_state_dict_hf_falcon, ""),
    "falcon of two norms": (
        lambda: _falcon(new_decoder_architecture=True, num_kv_heads=2),
        falcon.remap_state_dict_hf_falcon,
        "",
    ),
    "opt": (lambda: _opt(True, 64), opt.remap_state_dict_hf_opt, ""),
    "opt of the smallest": (lambda: _opt(False, 32), opt.remap_state_dict_hf_opt, ""),
    "gptj": (
        lambda: (
            hf.GPTJForCausalLM(
                hf.GPTJConfig(**GPT, rotary_dim=8, tie_word_embeddings=False)
            ),
            gptj.gptj_config_to_gpt2_config,
        ),
        gptj.remap_state_dict_hf_gptj,
        "",
    ),
    "neox": (lambda: _neox(True), gpt_neox.remap_state_dict_hf_gpt_neox, ""),
    "neox one after the other": (
        lambda: _neox(False), gpt_neox.remap_state_dict_hf_gpt_neox, ""
    ),
    "bigcode": (
        lambda: (
            hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**GPT)),
            bigcode.bigcode_config_to_gpt2_config,
        ),
        bigcode.remap_state_dict_hf_bigcode,
        "",
    ),
}


def stirred(model):
    """With weights that are far from their beginning, biases and norms too."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def pair(name, **options):
    """(transformers' model, ours with its weights)."""
    make, remap, prefix = FAMILIES[name]
    made, convert = make()
    theirs, config = stirred(made), convert(made.config)
    for key, value in options.items():
        setattr(config, key, value)
    state = {k.removeprefix(prefix): v.clone() for k, v in theirs.state_dict().items()}
    ours = gpt.GPTLMHeadModel(config)
    ours.load_state_dict(remap(state, config))
    return theirs, ours.eval()


def tokens(length=17):
    return torch.randint(3, 100, (2, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("module, name", NAMES)
def test_public_names_have_their_parameters(module, name):
    there, wanted = getattr(importlib.import_module(module), name), PUBLIC[module][name]
    for method, text in (wanted if isinstance(wanted, dict) else {"": wanted}).items():
        signature = inspect.signature(getattr(there, method) if method else there)
        names = [n for n in signature.parameters if n != "self"]
        asked = [part.split("=")[0].strip(" *") for part in text.split(", ")]
        assert names == [n.split(":")[0] for n in asked]


@pytest.mark.parametrize("flash", (False, True))
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(name, flash):
    theirs, ours = pair(name, use_flash_attn=flash)
    ids = tokens()
    with torch.no_grad():
        want, got = theirs(ids).logits, ours(ids).logits
    assert (got[..., :101] - want).abs().max() < 1e-4 * want.abs().max()


@pytest.mark.parametrize("flash", (False, True))
@pytest.mark.parametrize("name", ("llama", "gpt2", "neox"))
def test_generated_tokens_are_those_of_transformers(name, flash):
    theirs, ours = pair(name, use_flash_attn=flash)
    ids = tokens(6)
    want = theirs.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=None,
                           pad_token_id=0)
    assert ours.generate(ids, max_length=18).equal(want)


def test_words_are_padded_to_a_multiple():
    theirs, ours = pair("llama", pad_vocab_size_multiple=8)
    assert ours.lm_head.weight.shape == (104, 64)
    with torch.no_grad():
        want, got = theirs(tokens()).logits, ours(tokens()).logits
    assert got.shape[-1] == 104
    assert (got[..., :101] - want).abs().max() < 1e-4 * want.abs().max()


@pytest.mark.parametrize("name", ("llama", "bigcode"))
def test_weights_go_back(name):
    make, remap, _ = FAMILIES[name]
    made, convert = make()
    config, state = convert(made.config), made.state_dict()
    back = {"llama": llama.inv_remap_state_dict_hf_llama,
            "bigcode": bigcode.inv_remap_state_dict_hf_bigcode}[name]
    found = back(remap(dict(state), config), config)
    assert found.keys() == state.keys()
    assert all(found[key].equal(state[key]) for key in state)


@pytest.mark.parametrize("name", ("llama", "gpt2", "falcon of one key head"))
def test_parts_of_processes_make_the_whole(name):
    made, convert = FAMILIES[name][0]()
    config = convert(made.config)
    config.vocab_size, config.n_head_kv = 104, getattr(config, "n_head_kv", None)
    whole = gpt.GPTLMHeadModel(config).state_dict()
    parts = [gpt.shard_state_dict_tp(dict(whole), config, 2, rank) for rank in (0, 1)]
    assert parts[0]["lm_head.weight"].shape[0] == 52
    found = gpt.combine_state_dicts_tp(parts, config)
    assert found.keys() == whole.keys()
    assert all(found[key].equal(whole[key]) for key in whole)


def test_baichuan_is_llama_with_joint_weights():
    made, _ = _llama_equal_heads()
    state = {k: v.clone() for k, v in stirred(made).state_dict().items()}
    for i in range(2):
        start = f"model.layers.{i}.self_attn."
        joint = [state.pop(f"{start}{x}_proj.weight") for x in "qkv"]
        state[start + "W_pack.weight"] = torch.cat(joint)
    config = baichuan.baichuan_config_to_gpt2_config(made.config)
    ours = gpt.GPTLMHeadModel(config).eval()
    ours.load_state_dict(baichuan.remap_state_dict_hf_baichuan(state, config))
    with torch.no_grad():
        want, got = made(tokens()).logits, ours(tokens()).logits
    assert (got - want).abs().max() < 1e-4 * want.abs().max()


def _llama_equal_heads():
    config = hf.LlamaConfig(**BY_NAME, num_key_value_heads=4, tie_word_embeddings=False)
    return hf.LlamaForCausalLM(config), None


def test_btlm_has_gpt2s_weights_with_a_gate():
    config = hf.GPT2Config(**GPT, n_inner=96, activation_function="swiglu")
    for key, value in {
        "position_embedding_type": "alibi",
        "mup_width_scale": 0.5,
        "mup_embeddings_scale": 2.0,
        "mup_output_alpha": 3.0,
        "mup_scale_qk_dot_by_d": True,
    }.items():
        setattr(config, key, value)
    ours = gpt.GPTLMHeadModel(btlm.btlm_config_to_gpt2_config(config))
    state = {}
    for i in range(2):
        start, size = f"transformer.h.{i}.", {"c_attn": 192, "c_proj": 64}
        for name, width in size.items():
            state[f"{start}attn.{name}.weight"] = torch.randn(64, width)
            state[f"{start}attn.{name}.bias"] = torch.randn(width)
        for name, shape in {"c_fc": (64, 96), "c_fc2": (64, 96), "c_proj": (96, 64)}.items():
            state[f"{start}mlp.{name}.weight"] = torch.randn(shape)
            state[f"{start}mlp.{name}.bias"] = torch.randn(shape[1])
        for norm in ("ln_1", "ln_2"):
            state[f"{start}{norm}.weight"], state[f"{start}{norm}.bias"] = (
                torch.randn(64), torch.randn(64)
            )
    state["transformer.ln_f.weight"] = state["transformer.ln_f.bias"] = torch.randn(64)
    state["transformer.wte.weight"] = torch.randn(101, 64)
    state["transformer.relative_pe.slopes"] = torch.randn(4)
    ours.load_state_dict(btlm.remap_state_dict_hf_btlm(state, ours.config))
    gate = torch.cat([state["transformer.h.1.mlp.c_fc.weight"].t(),
                      state["transformer.h.1.mlp.c_fc2.weight"].t()])
    assert ours.transformer.layers[1].mlp.fc1.weight.equal(gate)
    assert torch.isfinite(ours(tokens()).logits).all()


def test_megatrons_heads_are_taken_apart():
    config = hf.GPT2Config(**GPT)
    whole = gpt.GPTModel(config).state_dict()
    wqkv = whole["layers.0.mixer.Wqkv.weight"]
    start = "language_model.encoder.layers.0.self_attention."
    mixed = wqkv.unflatten(0, (3, 4, 16)).transpose(0, 1).flatten(0, 2)
    found = gpt.remap_state_dict_megatron(
        {start + "query_key_value.weight": mixed,
         "language_model.embedding.word_embeddings.weight": torch.zeros(101, 64)}, config
    )
    assert found["transformer.layers.0.mixer.Wqkv.weight"].equal(wqkv)


def test_the_former_order_of_norms_is_moved():
    config = hf.GPT2Config(**GPT)
    ours = stirred(gpt.GPTLMHeadModel(config))
    state, former = ours.state_dict(), {}
    order = ["layers.0.norm1", "layers.0.norm2", "layers.1.norm1", "layers.1.norm2", "ln_f"]
    names = dict(zip(order, ["ln_0", *order[:-1]]))
    for key, value in state.items():
        place = key.removeprefix("transformer.").rpartition(".")[0]
        former[key.replace(place, names.get(place, place))] = value.clone()
    other = gpt.GPTLMHeadModel(config).eval()
    other.load_state_dict(former)
    assert other(tokens()).logits.equal(ours(tokens()).logits)


def test_steps_of_a_cache_are_the_whole():
    _, ours = pair("llama", use_flash_attn=True)
    ids, state = tokens(), InferenceParams(max_seqlen=32, max_batch_size=2)
    with torch.no_grad():
        whole, steps = ours(ids).logits, []
        for i in range(ids.shape[1]):
            places = torch.full((2, 1), i)
            steps.append(ours(ids[:, i : i + 1], places, inference_params=state).logits)
            state.seqlen_offset += 1
    assert (torch.cat(steps, 1) - whole).abs().max() < 1e-4 * whole.abs().max()


# --- BERT


def _bert(**options):
    config = hf.BertConfig(**BY_NAME, pad_token_id=0, max_position_embeddings=64)
    theirs = stirred(hf.BertForPreTraining(config))
    mine = hf.BertConfig(**BY_NAME, pad_token_id=0, max_position_embeddings=64)
    for key, value in options.items():
        setattr(mine, key, value)
    ours = bert.BertForPreTraining(mine)
    state = theirs.state_dict()
    missing = ours.load_state_dict(bert.remap_state_dict(state, mine), strict=False)
    assert not missing.missing_keys
    return theirs, ours.eval()


@pytest.mark.parametrize("flash", (False, True))
def test_bert_is_transformers_bert_with_padding(flash):
    theirs, ours = _bert(use_flash_attn=flash)
    ids, mask = tokens(), torch.ones(2, 17, dtype=torch.long)
    mask[0, 11:] = 0
    with torch.no_grad():
        want, got = (model(ids, attention_mask=mask) for model in (theirs, ours))
    apart = (got.prediction_logits - want.prediction_logits)[mask.bool()].abs().max()
    assert apart < 1e-4 * want.prediction_logits.abs().max()
    apart = (got.seq_relationship_logits - want.seq_relationship_logits).abs().max()
    assert apart < 1e-4 * want.seq_relationship_logits.abs().max()


def test_bert_of_the_asked_tokens_has_the_same_loss_and_gradients():
    ids, mask = tokens(), torch.ones(2, 17, dtype=torch.long)
    mask[0, 11:] = 0
    labels = torch.where(torch.rand(2, 17, generator=torch.Generator().manual_seed(1)) < 0.3,
                         ids, 0) * mask
    found = []
    for options in ({}, {"dense_seq_output": True},
                    {"dense_seq_output": True, "last_layer_subset": True}):
        _, model = _bert(use_flash_attn=True, **options)
        loss = model(ids, attention_mask=mask, labels=labels,
                     next_sentence_label=torch.tensor([0, 1])).loss
        loss.backward()
        found.append((loss.item(), model.bert.emb_ln.weight.grad))
    for loss, gradient in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        assert (gradient - found[0][1]).abs().max() < 1e-4 * gradient.abs().max()


def test_berts_weights_go_back_to_their_former_names():
    theirs, ours = _bert()
    state = bert.remap_state_dict(theirs.state_dict(), ours.config)
    back = bert.inv_remap_state_dict(state, ours.config)
    again = bert.remap_state_dict(back, ours.config)
    assert any(name.endswith("LayerNorm.gamma") for name in back)
    assert again.keys() == state.keys() and all(again[k].equal(state[k]) for k in state)


# --- vision, and files


def test_vit_of_the_class_token_is_that_of_all_tokens():
    torch.manual_seed(0)
    model = vit.VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=2,
                                  num_heads=4, num_classes=7, use_flash_attn=True).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        whole = model.forward_head(model.forward_features(images))
        assert (model(images) - whole).abs().max() < 1e-5
    state = dict(model.state_dict())
    q, kv = (state.pop(f"blocks.1.mixer.{x}.weight") for x in ("Wq", "Wkv"))
    b, kv_b = (state.pop(f"blocks.1.mixer.{x}.bias") for x in ("Wq", "Wkv"))
    state["blocks.1.attn.qkv.weight"], state["blocks.1.attn.qkv.bias"] = (
        torch.cat([q, kv]), torch.cat([b, kv_b])
    )
    patches = state["patch_embed.proj.weight"]
    state["patch_embed.proj.weight"] = patches.unflatten(1, (3, 8, 8))
    other = vit.VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=2,
                                  num_heads=4, num_classes=7).eval()
    other.load_state_dict(state)
    with torch.no_grad():
        assert (other(images) - whole).abs().max() < 1e-5
    with pytest.raises(ValueError, match="global_pool"):
        vit.VisionTransformer(global_pool="avg")


@pytest.mark.parametrize("safe", (False, True))
def test_weights_are_read_from_a_folder(tmp_path, safe):
    made, _ = FAMILIES["llama"][0]()
    made.save_pretrained(tmp_path, max_shard_size="100KB")
    assert list(tmp_path.glob("*.index.json"))
    if not safe:
        for path in tmp_path.iterdir():
            path.unlink()
        torch.save(made.state_dict(), tmp_path / "pytorch_model.bin")
    found = state_dict_from_pretrained(str(tmp_path), dtype=torch.bfloat16)
    state = made.state_dict()
    assert found.keys() == state.keys()
    assert all(found[key].equal(state[key].bfloat16()) for key in state)
    with pytest.raises(EnvironmentError, match="no weights"):
        (tmp_path / "empty").mkdir()
        state_dict_from_pretrained(str(tmp_path / "empty"))
