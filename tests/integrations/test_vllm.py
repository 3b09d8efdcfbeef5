"""anyflash.vllm against vLLM's published interface, with caches in vLLM's layout.

Needs the files that fetch_vllm.py downloads: $ANYFLASH_VLLM_SOURCES, or
build/integrations-vllm.
"""

import ast
import inspect
import os
import pathlib
import sys
import types

import formula
import published_vllm
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(
    os.environ.get("ANYFLASH_VLLM_SOURCES", ROOT / "build" / "integrations-vllm")
)
PAGE, DIM, HEADS, GROUPS = 16, 32, 4, 2


@pytest.fixture(scope="module", autouse=True)
def vllm():
    finder = published_vllm.Finder(FOLDER)
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)
    for name in [x for x in sys.modules if x == "vllm" or x.startswith("vllm.")]:
        del sys.modules[name]
    sys.modules.pop("anyflash._vllm_backend", None)


@pytest.fixture
def backends():
    import anyflash._vllm_backend

    return anyflash._vllm_backend


def test_registers_custom_and_the_cpu_only_when_asked(monkeypatch):
    import anyflash.vllm
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    monkeypatch.delenv("ANYFLASH_VLLM", raising=False)
    anyflash.vllm.register()
    assert AttentionBackendEnum.CUSTOM.get_class().get_name() == "CUSTOM"
    assert not AttentionBackendEnum.CPU_ATTN.is_overridden()
    monkeypatch.setenv("VLLM_PLUGINS", "other,anyflash")
    anyflash.vllm.register()
    anyflash.vllm.register()
    found = AttentionBackendEnum.CPU_ATTN.get_class()
    assert found.__module__ == "anyflash._vllm_backend" and found.get_name() == "CPU_ATTN"
    anyflash.vllm.unregister()
    assert not AttentionBackendEnum.CPU_ATTN.is_overridden()
    assert not AttentionBackendEnum.CUSTOM.is_overridden()


def test_a_custom_backend_of_another_plugin_stays():
    import anyflash.vllm
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, "other.plugin.Backend")
    anyflash.vllm.register(cpu=False)
    anyflash.vllm.unregister()
    assert AttentionBackendEnum.CUSTOM.get_path() == "other.plugin.Backend"
    AttentionBackendEnum.CUSTOM.clear_override()


def test_names_are_members_where_vllm_looks_them_up(backends):
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    for backend in (backends.CPUBackend, backends.CustomBackend):
        assert AttentionBackendEnum[backend.get_name()]


def test_the_entry_point_is_of_the_group_that_vllm_loads():
    body = ast.parse((FOLDER / "vllm/plugins/__init__.py").read_text()).body
    group = next(
        x.value.value
        for x in body
        if isinstance(x, ast.Assign) and x.targets[0].id == "DEFAULT_PLUGINS_GROUP"
    )
    project = (ROOT / "pyproject.toml").read_text()
    assert f'[project.entry-points."{group}"]\nanyflash = "anyflash.vllm:register"' in project


def test_the_cpu_platform_asks_the_replaceable_path():
    chosen = published_vllm.definition(
        FOLDER / "vllm/platforms/cpu.py", "CpuPlatform.get_attn_backend_cls"
    )
    assert "return AttentionBackendEnum.CPU_ATTN.get_path()" in ast.unparse(chosen)


def test_no_abstract_method_is_left_and_signatures_agree(backends):
    from vllm.v1.attention.backend import AttentionBackend, AttentionImpl

    for backend in (backends.CPUBackend, backends.CustomBackend):
        assert issubclass(backend, AttentionBackend)
        for made in (backend, backend.get_impl_cls(), backend.get_builder_cls()):
            assert not getattr(made, "__abstractmethods__", None)
        ours = backend.get_impl_cls()
        assert issubclass(ours, AttentionImpl)
        for name in ("__init__", "forward"):
            wanted = list(inspect.signature(getattr(AttentionImpl, name)).parameters)
            have = list(inspect.signature(getattr(ours, name)).parameters)
            assert have[: len(wanted)] == wanted
        assert "sinks" in inspect.signature(ours.__init__).parameters


def test_methods_are_called_as_vllm_calls_them(backends):
    """Every call in vLLM's attention layer fits our signatures."""
    layer = FOLDER / "vllm/model_executor/layers/attention/attention.py"
    calls = {}
    for node in ast.walk(ast.parse(layer.read_text())):
        if isinstance(node, ast.Call):
            calls.setdefault(ast.unparse(node.func), []).append(node)
    for spelled, name in (
        ("self.impl.forward", "forward"),
        ("attn_layer.impl.do_kv_cache_update", "do_kv_cache_update"),
        ("impl_cls", "__init__"),
    ):
        assert calls[spelled]
        for call in calls[spelled]:
            keywords = {x.arg: 0 for x in call.keywords if x.arg}
            target = getattr(backends.CPUImpl, name)
            inspect.signature(target).bind(None, *[0] * len(call.args), **keywords)


def test_metadata_has_what_vllms_own_has(backends):
    published = published_vllm.definition(
        FOLDER / "vllm/v1/attention/backends/cpu_attn.py", "CPUAttentionMetadata"
    )
    theirs = [x.target.id for x in published.body if isinstance(x, ast.AnnAssign)]
    ours = list(backends.Metadata.__dataclass_fields__)
    assert set(ours) <= set(theirs) and theirs[:7] == ours[:7]


def test_argument_order_of_vllms_own_flash_attn_differs():
    """Why CustomImpl passes arguments in flash-attn's order, not in vLLM's."""
    theirs = published_vllm.parameters(
        published_vllm.definition(
            FOLDER / "vllm/vllm_flash_attn/flash_attn_interface.py", "flash_attn_varlen_func"
        )
    )
    from anyflash.flash_attn import flash_attn_varlen_func

    ours = list(inspect.signature(flash_attn_varlen_func).parameters)
    assert theirs[3:6] == ["max_seqlen_q", "cu_seqlens_q", "max_seqlen_k"]
    assert ours[3:7] == ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]


def test_vllm_finds_nothing_invalid_in_what_is_supported(backends):
    asked = dict(
        head_size=128,
        dtype=torch.bfloat16,
        kv_cache_dtype="auto",
        block_size=32,
        use_mla=False,
        has_sink=True,
        use_sparse=False,
        use_mm_prefix=False,
        use_per_head_quant_scales=False,
        device_capability=None,
        attn_type="decoder",
        has_sliding_window=True,
        use_non_causal=True,
    )
    for backend in (backends.CPUBackend, backends.CustomBackend):
        assert backend.validate_configuration(**asked) == []
    for name in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        asked["kv_cache_dtype"] = name
        assert backends.CPUBackend.validate_configuration(**asked) == []
        refused = backends.CustomBackend.validate_configuration(**asked)
        assert refused == ["kv_cache_dtype not supported"]
    assert not backends.CPUBackend.supports_kv_cache_dtype("fp8_ds_mla")


QUERIES, LENGTHS = (1, 7, 20, 1), (33, 7, 45, 1)  # decode, prefill, chunk, first token
DECODES = (1, 1, 1, 1)
LAYER = types.SimpleNamespace(_k_scale_float=0.5, _v_scale_float=0.004)


class Step:
    """Four requests with scattered pages; the earlier keys are already in the cache, as are the
    new ones if vLLM writes them by a call of its own."""

    def __init__(self, impl, dtype, causal=True, queries=QUERIES):
        torch.manual_seed(0)
        self.queries = queries
        make = lambda *shape: torch.randn(*shape).to(dtype)  # noqa: E731
        self.k = [make(n, GROUPS, DIM) for n in LENGTHS]
        self.v = [make(n, GROUPS, DIM) for n in LENGTHS]
        tokens = sum(self.queries)
        self.query = make(tokens + 3, HEADS, DIM)  # vLLM pads its metadata
        pages = [-(-n // PAGE) for n in LENGTHS]
        order = torch.randperm(sum(pages) + 2)[: sum(pages)].to(torch.int32)
        table = torch.zeros(len(LENGTHS), max(pages), dtype=torch.int32)
        for row, part in zip(table, order.split(pages)):
            row[: len(part)] = part
        is_f8 = impl.kv_cache_dtype.startswith("fp8")
        cache = torch.zeros(sum(pages) + 2, GROUPS, PAGE, 2 * DIM, dtype=dtype)
        self.cache = cache = cache.to(torch.uint8) if is_f8 else cache
        # pages that no request uses
        cache[order.long().max() + 1 :] = 0x7F if is_f8 else torch.nan
        slots = []
        for row, q, n in zip(table, queries, LENGTHS):
            place = torch.arange(n)
            slots.append(row[place // PAGE].long() * PAGE + place % PAGE)
        early = [slice(0, n - q) for q, n in zip(queries, LENGTHS)]
        late = [slice(n - q, n) for q, n in zip(queries, LENGTHS)]
        pick = lambda xs, parts: torch.cat([x[p] for x, p in zip(xs, parts)])  # noqa: E731
        impl.do_kv_cache_update(
            LAYER, pick(self.k, early), pick(self.v, early), cache, pick(slots, early)
        )
        self.key = torch.cat((pick(self.k, late), make(3, GROUPS, DIM)))
        self.value = torch.cat((pick(self.v, late), make(3, GROUPS, DIM)))
        new = torch.cat((pick(slots, late), torch.full((3,), -1)))
        self.slots = slots
        if not impl.writes:
            impl.do_kv_cache_update(LAYER, self.key, self.value, cache, new)
        starts = torch.tensor((0, *queries)).cumsum(0).to(torch.int32)
        self.common = types.SimpleNamespace(
            num_actual_tokens=tokens,
            max_query_len=max(queries),
            query_start_loc=starts,
            max_seq_len=max(LENGTHS),
            seq_lens=torch.tensor(LENGTHS, dtype=torch.int32),
            block_table_tensor=table,
            slot_mapping=new,
            causal=causal,
        )

    def metadata(self, backends):
        builder = backends.MetadataBuilder(None, ["layer"], None, torch.device("cpu"))
        return builder.build(0, self.common)

    def run(self, backends, impl, step=None):
        step = step or self.metadata(backends)
        output = torch.full_like(self.query, 7.0)
        found = impl.forward(
            LAYER, self.query, self.key, self.value, self.cache, step, output=output
        )
        assert found is output and (output[sum(self.queries) :] == 7.0).all()
        return output[: sum(self.queries)].split(self.queries)

    def written(self, impl):
        """The keys and the values of each request that are in the cache."""
        size = self.cache.shape[2]
        caches = impl.pages(self.cache)
        return [
            [cache[slot // size, :, slot % size] for slot in self.slots] for cache in caches
        ]


FEATURES = {
    "plain": {},
    "window": {"sliding_window": 9},
    "softcap": {"logits_soft_cap": 3.0},
    "alibi": {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
    "sinks": {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
    "window and sinks": {"sliding_window": 9, "sinks": torch.tensor([1.0, 0.0, 2.0, 3.0])},
}


def made(implementation, features, cache="auto"):
    features = dict(features)
    return implementation(
        HEADS,
        DIM,
        0.2,
        GROUPS,
        features.pop("alibi_slopes", None),
        features.pop("sliding_window", None),
        cache,
        features.pop("logits_soft_cap", None),
        "decoder",
        None,
        **features,
    )


def wanted(step, features, causals):
    slopes = features.get("alibi_slopes")
    slopes = None if slopes is None else torch.tensor(slopes)
    left = features.get("sliding_window", 0) - 1
    cap, sinks = features.get("logits_soft_cap"), features.get("sinks")
    queries = step.query[: sum(step.queries)].split(step.queries)
    for q, k, v, causal in zip(queries, step.k, step.v, causals):
        yield formula.attend(q, k, v, causal, (left, left), cap, slopes, sinks, 0.2)[0]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("queries", (QUERIES, DECODES))
@pytest.mark.parametrize("kind", ("CPUImpl", "CustomImpl"))
def test_a_step_over_scattered_pages(backends, kind, queries, name, dtype):
    impl = made(getattr(backends, kind), FEATURES[name])
    step = Step(impl, dtype, queries=queries)
    for found, expected in zip(
        step.run(backends, impl), wanted(step, FEATURES[name], [True] * 4)
    ):
        bound = 1e-5 if dtype == torch.float32 else 0.03
        assert (found.double() - expected).abs().max() < bound


def test_vllm_is_told_who_writes_the_cache(backends):
    for backend in (backends.CPUBackend, backends.CustomBackend):
        assert backend.forward_includes_kv_cache_update == backend.get_impl_cls().writes


def appends(step):
    return step.step(PAGE).past is not None


@pytest.mark.parametrize(
    ("queries", "in_c"), ((QUERIES, True), (QUERIES, False), (DECODES, True))
)
def test_forward_on_the_cpu_writes_new_keys_and_values(backends, queries, in_c, monkeypatch):
    if not in_c:
        monkeypatch.setattr(backends._paged, "_FEW_BYTES", 0)
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.bfloat16, queries=queries)
    step.run(backends, impl)
    for found, expected in zip(step.written(impl), (step.k, step.v)):
        assert all(torch.equal(x, y) for x, y in zip(found, expected))
    assert appends(step.metadata(backends)) == (queries == DECODES)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", ("fp8", "fp8_e4m3", "fp8_e5m2"))
@pytest.mark.parametrize("queries", (QUERIES, DECODES))
def test_a_step_over_an_fp8_cache(backends, queries, name, dtype):
    """The factor of values is so small that the largest of them do not fit into e4m3."""
    impl = made(backends.CPUImpl, {}, name)
    step = Step(impl, dtype, queries=queries)
    results = step.run(backends, impl)
    assert appends(step.metadata(backends)) == (queries == DECODES)
    f8 = torch.float8_e5m2 if name == "fp8_e5m2" else torch.float8_e4m3fn
    largest, factors = torch.finfo(f8).max, (LAYER._k_scale_float, LAYER._v_scale_float)
    for given, factor, found in zip((step.k, step.v), factors, step.written(impl)):
        for i, new in enumerate(given):
            stored = (new.float() / factor).clamp(-largest, largest).to(f8)
            assert torch.equal(found[i], stored.view(torch.uint8))
            given[i] = stored.float() * factor  # what is attended to
    for found, expected in zip(results, wanted(step, {}, [True] * 4)):
        bound = 1e-5 if dtype == torch.float32 else 0.03
        assert (found.double() - expected).abs().max() < bound


def test_only_tokens_with_a_slot_are_written(backends):
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.float32, queries=DECODES)
    step.common.slot_mapping[1] = -1
    step.run(backends, impl)
    assert not appends(step.metadata(backends))
    for found, expected in zip(step.written(impl), (step.k, step.v)):
        same = [torch.equal(x, y) for x, y in zip(found, expected)]
        assert same == [True, False, True, True] and not found[1][-1].any()


def test_slots_without_keys_are_left_out(backends):
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.float32)
    step.key, step.value = step.key[:-3], step.value[:-3]
    step.run(backends, impl)
    for found, expected in zip(step.written(impl), (step.k, step.v)):
        assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_a_slot_beyond_the_last_page_is_an_error(backends):
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.float32)
    step.common.slot_mapping[0] = len(step.cache) * PAGE
    with pytest.raises(IndexError, match="slot_mapping"):
        step.run(backends, impl)


def test_requests_that_write_to_one_page_do_not_append(backends):
    """As in vLLM's warm-up, where every table is zero."""
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.float32, queries=DECODES)
    step.cache.zero_()
    step.common.block_table_tensor.zero_()
    step.common.seq_lens.fill_(1)
    step.common.slot_mapping[:4] = 0
    assert all(x.isfinite().all() for x in step.run(backends, impl))
    assert not appends(step.metadata(backends))


def test_a_layer_that_shares_the_cache_of_another_does_not_write(backends):
    impl = made(backends.CPUImpl, {})
    impl.kv_sharing_target_layer_name = "first"
    for queries in (QUERIES, DECODES):
        step = Step(impl, torch.float32, queries=queries)
        before = step.cache.clone()
        step.run(backends, impl)
        assert torch.equal(step.cache.nan_to_num(), before.nan_to_num())


def test_layers_of_a_step_may_differ(backends):
    first = made(backends.CPUImpl, {})
    step = Step(first, torch.float32, queries=DECODES)
    metadata = step.metadata(backends)
    for name, features in FEATURES.items():
        found = step.run(backends, made(backends.CPUImpl, features), metadata)
        for one, expected in zip(found, wanted(step, features, [True] * 4)):
            assert (one.double() - expected).abs().max() < 1e-5, name


@pytest.mark.parametrize(
    "wrong, error, text",
    (
        ({"query": torch.zeros(4, HEADS, DIM, dtype=torch.float64)}, TypeError, "float64"),
        ({"query": torch.zeros(3, HEADS, DIM)}, ValueError, "query: shape"),
        ({"key": torch.zeros(4, GROUPS, DIM + 1)}, ValueError, "key: shape"),
        ({"value": torch.zeros(4, GROUPS, DIM).half()}, TypeError, "value: is torch.float16"),
        ({"cache": torch.zeros(9, GROUPS, PAGE, 2 * DIM).half()}, TypeError, "cache: is"),
        ({"cache": torch.zeros(9, GROUPS, PAGE, DIM)}, ValueError, "cache: shape"),
        ({"cache": torch.zeros(9, PAGE, GROUPS, 2 * DIM).transpose(1, 2)}, ValueError, "heads"),
    ),
)
def test_wrong_tensors_are_named(backends, wrong, error, text):
    impl = made(backends.CPUImpl, {})
    step = Step(impl, torch.float32, queries=DECODES)
    vars(step).update(wrong)
    with pytest.raises(error, match=text):
        step.run(backends, impl)


@pytest.mark.parametrize("features", ({}, {"sliding_window": 9}))
@pytest.mark.parametrize("kind", ("CPUImpl", "CustomImpl"))
def test_each_request_may_be_causal_or_not(backends, kind, features):
    impl = made(getattr(backends, kind), features)
    for causal in (False, torch.tensor([1, 0, 0, 1], dtype=torch.int32)):
        step = Step(impl, torch.float32, causal)
        causals = causal.bool().tolist() if torch.is_tensor(causal) else [False] * 4
        for found, expected in zip(step.run(backends, impl), wanted(step, features, causals)):
            assert (found.double() - expected).abs().max() < 1e-5


@pytest.mark.parametrize("kind", ("CPUImpl", "CustomImpl"))
def test_encoders_need_no_cache(backends, kind):
    torch.manual_seed(1)
    implementation = getattr(backends, kind)
    impl = implementation(HEADS, DIM, 0.2, GROUPS, attn_type="encoder_only")
    rows = sum(QUERIES)
    q = torch.randn(rows, HEADS, DIM)
    k, v = torch.randn(rows, GROUPS, DIM), torch.randn(rows, GROUPS, DIM)
    starts = torch.tensor((0, *QUERIES)).cumsum(0).to(torch.int32)
    lengths = torch.tensor(QUERIES, dtype=torch.int32)
    step = backends.Metadata(rows, 20, starts, 20, lengths, None, None, False)
    impl.do_kv_cache_update(None, k, v, None, None)
    out = impl.forward(None, q, k, v, None, step, output=torch.empty_like(q))
    for found, a, b, c in zip(*(x.split(QUERIES) for x in (out, q, k, v))):
        expected = formula.attend(a, b, c, scale=0.2)[0]
        assert (found.double() - expected).abs().max() < 1e-5


def test_a_run_that_only_measures_memory(backends):
    impl = backends.CPUImpl(HEADS, DIM, 0.2)
    output = torch.full((3, HEADS, DIM), torch.nan)
    assert not impl.forward(None, output, None, None, None, None, output=output).any()
