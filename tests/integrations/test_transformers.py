"""anyflash.transformers in real models, compared with their own eager attention."""

import copy
import pickle

import pytest
import tiny
import torch
import transformers as hf

import anyflash.transformers
from anyflash import _hf_elsewhere
from anyflash import _masked

STEPS = 64
NAMES = ("eager", "anyfa")
hf.utils.logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def registered():
    anyflash.transformers.register()
    yield
    anyflash.transformers.unregister()


def logits(model, name, ids, **options):
    model.set_attn_implementation(name)
    with torch.no_grad():
        return model(ids, **options).logits


def generated(model, name, ids, steps=STEPS, **options):
    model.set_attn_implementation(name)
    return model.generate(ids, max_new_tokens=steps, do_sample=False, **options)


def apart(a, b, mask=None):
    difference = (a.float() - b.float()).abs()
    return float((difference if mask is None else difference[mask.bool()]).max())


@pytest.mark.parametrize("cache", ("dynamic", "static"))
@pytest.mark.parametrize("name", tiny.DECODERS)
def test_greedy_tokens_are_those_of_eager(name, cache):
    model, ids = tiny.decoder(name), tiny.tokens()
    options = {"cache_implementation": cache}
    expected = generated(model, "eager", ids, **options)
    assert torch.equal(generated(model, "anyfa", ids, **options), expected)
    assert len(expected[0, 20:].unique()) > 8  # so that the test is meaningful


@pytest.mark.parametrize("cache", ("dynamic", "static"))
@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("name", tiny.DECODERS)
def test_padding_on_either_side(name, side, cache):
    model, ids, mask = tiny.decoder(name), tiny.tokens(), tiny.padding(side=side)
    a, b = (logits(model, x, ids, attention_mask=mask) for x in ("eager", "anyfa"))
    assert apart(a, b, mask) < 1e-5
    options = {"cache_implementation": cache, "attention_mask": mask, "steps": 12}
    expected = generated(model, "eager", ids, **options)
    assert torch.equal(generated(model, "anyfa", ids, **options), expected)


def decoded(model, name, ids, mask):
    """Logits of the last token, after each of the tokens that follow the first 40."""
    model.set_attn_implementation(name)
    steps, mask = [], torch.cat((mask, torch.ones_like(ids[:, 40:])), 1)
    cache = hf.DynamicCache()  # without the configuration it keeps keys behind the window
    with torch.no_grad():
        for start, stop in ((0, 40), *((i, i + 1) for i in range(40, ids.shape[1]))):
            options = {"attention_mask": mask[:, :stop], "past_key_values": cache}
            options["position_ids"] = (mask[:, :stop].cumsum(1) - 1).clamp_min(0)[:, start:]
            steps.append(model(ids[:, start:stop], **options).logits[:, -1])
    return torch.stack(steps, 1)


@pytest.mark.parametrize("head_dim", (64, 128))
@pytest.mark.parametrize("name", tiny.WIDE)
def test_logits_of_decoding_behind_left_padding(name, head_dim):
    """In each step the sequences begin at other keys, and a window at each key in turn."""
    ids, mask = tiny.tokens(4, 52), torch.ones(4, 40, dtype=torch.long)
    for sequence, count in enumerate((0, 4, 9, 23)):
        mask[sequence, :count] = 0
    truth, ours = (decoded(tiny.wide(name, head_dim), x, ids, mask) for x in NAMES)
    assert apart(truth, ours) < 1e-4 and truth.std() > 0.5
    half = tiny.wide(name, head_dim, torch.bfloat16)
    eager, ours = (apart(decoded(half, x, ids, mask), truth) for x in NAMES)
    assert ours < 1.5 * eager


@pytest.mark.parametrize("name", tiny.DECODERS)
def test_bf16_is_as_near_to_the_truth_as_eager(name):
    ids = tiny.tokens(length=40)
    truth = logits(tiny.decoder(name), "eager", ids)
    model = tiny.decoder(name, torch.bfloat16)
    eager, ours = (apart(logits(model, x, ids), truth) for x in ("eager", "anyfa"))
    assert ours < max(1.5 * eager, 0.02)


def test_bert_with_padding():
    model, ids, mask = tiny.bert(), tiny.tokens(), tiny.padding(side="right")
    states = []
    for name in ("eager", "anyfa"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            states.append(model(ids, attention_mask=mask).last_hidden_state)
    assert apart(*states, mask) < 1e-5


@pytest.mark.parametrize("side", ("left", "right"))
def test_tokens_and_bf16_of_bert_with_padding(side):
    """The most likely token at each of 64 positions."""
    ids, mask = tiny.tokens(length=64), tiny.padding(length=64, side=side, count=20)
    truth, ours = (logits(tiny.bert_lm(), x, ids, attention_mask=mask) for x in NAMES)
    assert apart(truth, ours, mask) < 1e-5
    assert torch.equal(truth.argmax(-1)[mask.bool()], ours.argmax(-1)[mask.bool()])
    assert len(truth.argmax(-1).unique()) > 8  # so that the test is meaningful
    half = tiny.bert_lm(dtype=torch.bfloat16)
    eager, ours = (
        apart(logits(half, x, ids, attention_mask=mask), truth, mask) for x in NAMES
    )
    assert ours < max(1.5 * eager, 0.02)


@pytest.mark.parametrize("cache", ("dynamic", "static"))
def test_greedy_tokens_of_bert_as_a_padded_decoder(cache):
    model, ids, mask = tiny.bert_lm(is_decoder=True), tiny.tokens(), tiny.padding()
    options = {"cache_implementation": cache, "attention_mask": mask}
    expected = generated(model, "eager", ids, **options)
    assert torch.equal(generated(model, "anyfa", ids, **options), expected)
    assert len(expected[0, 20:].unique()) > 8


def test_copies_of_a_model_keep_the_name():
    model, ids = tiny.decoder("llama"), tiny.tokens()
    expected = logits(model, "anyfa", ids)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.config._attn_implementation == "anyfa"
        with torch.no_grad():
            assert torch.equal(copied(ids).logits, expected)


def test_bidirectional_windows_of_modernbert():
    config = hf.ModernBertConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        local_attention=8,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model, ids = hf.ModernBertModel(config).eval(), tiny.tokens(length=40)
    mask = tiny.padding(length=40, side="right")
    for options in ({}, {"attention_mask": mask}):
        states = []
        for name in ("eager", "anyfa"):
            model.set_attn_implementation(name)
            with torch.no_grad():
                states.append(model(ids, **options).last_hidden_state)
        assert apart(*states, options.get("attention_mask")) < 1e-5


def test_cross_attention_of_an_encoder_and_decoder():
    torch.manual_seed(0)
    config = hf.BartConfig(
        vocab_size=128,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
    )
    model = hf.BartForConditionalGeneration(config).eval()
    for side in ("left", "right"):
        options = {
            "attention_mask": tiny.padding(side=side),
            "decoder_input_ids": tiny.tokens(length=20, seed=1),
        }
        a, b = (logits(model, x, tiny.tokens(), **options) for x in ("eager", "anyfa"))
        assert apart(a, b) < 1e-5


def packed():
    ids = tiny.tokens(1, 20)
    places = torch.cat((torch.arange(8), torch.arange(12)))[None]
    return ids, places


@pytest.mark.parametrize("name", tiny.DECODERS)
def test_packed_sequences_do_not_see_each_other(name):
    model, (ids, places) = tiny.decoder(name), packed()
    options = {"position_ids": places, "use_cache": False}
    expected = torch.cat(
        [logits(model, "eager", x, use_cache=False) for x in (ids[:, :8], ids[:, 8:])], 1
    )
    assert apart(logits(model, "anyfa", ids, **options), expected) < 1e-5
    starts = torch.tensor([0, 8, 20], dtype=torch.int32)
    options.update(cu_seq_lens_q=starts, cu_seq_lens_k=starts)
    options.update(max_length_q=12, max_length_k=12)
    assert apart(logits(model, "anyfa", ids, **options), expected) < 1e-5


def test_a_window_that_only_the_mask_knows():
    model = tiny.decoder("llama")
    changed = hf.masking_utils.create_sliding_window_causal_mask
    model.config.sliding_window = 5
    module = hf.models.llama.modeling_llama
    before, module.create_causal_mask = module.create_causal_mask, changed
    try:
        a, b = (logits(model, x, tiny.tokens(), use_cache=False) for x in ("eager", "anyfa"))
    finally:
        module.create_causal_mask = before
    assert apart(a, b) < 1e-5
    assert apart(a, logits(model, "eager", tiny.tokens())) > 1e-3


def test_patterns_that_are_unknown_become_whole_masks():
    masks = hf.masking_utils
    chunks = masks.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long))
    prefix = masks.or_masks(
        masks.causal_mask_function, lambda b, h, q, k: (q < 6) & (k < 6)
    )
    for function in (chunks, prefix):
        ours = anyflash.transformers._hf_masks.mask(2, 20, 20, mask_function=function)
        expected = masks.sdpa_mask(
            2, 20, 20, mask_function=function, allow_is_causal_skip=False
        )
        assert ours.dtype == torch.bool and torch.equal(ours, expected)


@pytest.mark.parametrize("name", tiny.DECODERS)
def test_masks_of_rank_4_that_a_user_gives(name):
    model, ids = tiny.decoder(name), tiny.tokens()
    visible = torch.ones(20, 20, dtype=torch.bool).tril()
    visible[:6, :6] = True
    mask = visible.expand(2, 1, 20, 20)
    additive = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    if model.config.model_type in ("gemma2", "gpt_oss"):
        mask = {"full_attention": mask, "sliding_attention": mask}
        additive = {"full_attention": additive, "sliding_attention": additive}
    expected = logits(model, "eager", ids, attention_mask=additive)
    for given in (mask, additive):
        assert apart(logits(model, "anyfa", ids, attention_mask=given), expected) < 1e-5


def test_chunked_prefill_continues_a_cache():
    model, ids = tiny.decoder("mistral"), tiny.tokens(length=30)
    model.set_attn_implementation("anyfa")
    cache = hf.DynamicCache(config=model.config)
    with torch.no_grad():
        parts = [model(x, past_key_values=cache).logits for x in ids.split(11, 1)]
    assert apart(torch.cat(parts, 1), logits(model, "eager", ids)) < 1e-5


@pytest.mark.parametrize("name", tiny.DECODERS)
@pytest.mark.parametrize("padded", (False, True))
def test_gradients_are_those_of_eager(name, padded):
    ids, gradients = tiny.tokens(), []
    mask = tiny.padding(side="right") if padded else None
    labels = ids if mask is None else ids.masked_fill(mask == 0, -100)
    for kind in ("eager", "anyfa"):
        model = tiny.decoder(name).train()
        model.set_attn_implementation(kind)
        model(ids, attention_mask=mask, labels=labels).loss.backward()
        gradients.append({k: p.grad for k, p in model.named_parameters()})
    for key, expected in gradients[0].items():
        assert apart(gradients[1][key], expected) < 1e-5 * max(1.0, float(expected.abs().max()))
        assert expected.abs().max() > 0 or "experts" in key or "router" in key


@pytest.mark.parametrize("case", ("plain", "padded", "packed"))
def test_one_graph_under_compile(case):
    model, ids = tiny.decoder("mistral", num_hidden_layers=1), tiny.tokens()
    options = {"plain": {}, "padded": {"attention_mask": tiny.padding()}}.get(case)
    if case == "packed":
        ids, places = packed()
        options = {"position_ids": places, "use_cache": False}
    expected = logits(model, "anyfa", ids, **options)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert apart(compiled(ids, **options).logits, expected) < 1e-6


def test_one_graph_with_gradients_under_compile():
    ids, mask = tiny.tokens(), tiny.padding()
    model = tiny.decoder("gptoss", num_hidden_layers=1)
    model.set_attn_implementation("anyfa")
    weight = model.model.layers[0].self_attn.sinks
    model(ids, attention_mask=mask).logits.square().mean().backward()
    expected, weight.grad = weight.grad, None
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    compiled(ids, attention_mask=mask).logits.square().mean().backward()
    assert expected.abs().max() > 0 and apart(weight.grad, expected) < 1e-7


@pytest.mark.parametrize("name", ("mistral", "gptoss"))
def test_one_graph_for_each_step_of_a_static_cache(name):
    model, ids = tiny.decoder(name, num_hidden_layers=1), tiny.tokens()
    expected = generated(model, "anyfa", ids, 4)[:, 20:]
    cache = hf.StaticCache(config=model.config, max_cache_len=40)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = []
    with torch.no_grad():
        for step in (model, compiled, compiled, compiled):
            ids = step(ids, past_key_values=cache).logits[:, -1:].argmax(-1)
            found.append(ids)
    assert torch.equal(torch.cat(found, 1), expected)


def test_autocast_computes_in_its_type():
    model, ids = tiny.decoder("qwen3"), tiny.tokens()
    with torch.autocast("cpu", torch.bfloat16):
        a, b = (logits(model, x, ids) for x in ("eager", "anyfa"))
    assert apart(a, b) < 0.05 * float(a.abs().max())


def problem(heads=4, dtype=torch.float32):
    torch.manual_seed(0)
    return (
        torch.randn(2, heads, 20, 16, dtype=dtype),
        torch.randn(2, 2, 20, 16, dtype=dtype),
        torch.randn(2, 2, 20, 16, dtype=dtype),
    )


@pytest.mark.parametrize("causal", (True, False))
@pytest.mark.parametrize("window", (0, 6))
@pytest.mark.parametrize("sinks", (None, torch.tensor([0.5, -1.0, 2.0, 0.0])))
def test_the_way_of_other_devices_gives_the_same(causal, window, sinks):
    mask_of = anyflash.transformers._hf_masks
    functions = hf.masking_utils
    q, k, v = problem()
    kind = functions.causal_mask_function if causal else functions.bidirectional_mask_function
    if window and causal:
        kind = functions.sliding_window_causal_mask_function(window)
    elif window:
        kind = functions.sliding_window_bidirectional_mask_function(window)
    for side in ("left", "right", "middle"):
        keys = tiny.padding(side=side).bool()
        if side == "middle":
            keys[:], keys[0, 4:7] = True, False
        mask = mask_of.mask(2, 20, 20, mask_function=kind, attention_mask=keys)
        tail = (mask_of.unpack(mask), sinks, 0.25, causal, -1, -1, 0.0, 0.0, 0)
        ours = _masked.attend_masked(q, k, v, *tail)
        elsewhere = _hf_elsewhere.attend_elsewhere(q, k, v, *tail)
        assert apart(ours, elsewhere, keys) < 1e-5


def test_flash_attention_2_runs_on_the_cpu_and_is_taken_back():
    model, ids, mask = tiny.decoder("mistral"), tiny.tokens(), tiny.padding()
    with pytest.raises((ImportError, ValueError)):
        model.set_attn_implementation("flash_attention_2")
    expected = generated(model, "eager", ids, 12, attention_mask=mask)
    anyflash.transformers.enable_flash_attention_2()
    try:
        for cache in ("dynamic", "static"):
            found = generated(
                model,
                "flash_attention_2",
                ids,
                12,
                attention_mask=mask,
                cache_implementation=cache,
            )
            assert torch.equal(found, expected)
    finally:
        anyflash.transformers.disable_flash_attention_2()
    with pytest.raises((ImportError, ValueError)):
        tiny.decoder("mistral").set_attn_implementation("flash_attention_2")


def test_continuous_batching_by_flash_attention_2():
    model, ids = tiny.decoder("llama"), tiny.tokens()
    expected = generated(model, "eager", ids, 6)[:, 20:].tolist()
    options = hf.GenerationConfig(
        max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    anyflash.transformers.enable_flash_attention_2()
    try:
        model.set_attn_implementation("flash_attention_2")
        found = model.generate_batch(ids.tolist(), generation_config=options)
    finally:
        anyflash.transformers.disable_flash_attention_2()
    assert [found[f"req_{i}"].generated_tokens for i in range(2)] == expected


def test_names_that_transformers_keeps_are_refused():
    for name in ("anyflash", "org/kernel", "sdpa"):
        with pytest.raises(ValueError, match="name"):
            anyflash.transformers.register(name)


def test_unregister_leaves_nothing():
    anyflash.transformers.unregister()
    assert "anyfa" not in hf.AttentionInterface._global_mapping
    assert "anyfa" not in hf.AttentionMaskInterface._global_mapping
    with pytest.raises(ValueError):
        tiny.decoder("llama").set_attn_implementation("anyfa")
