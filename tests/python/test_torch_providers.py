"""The providers that call torch's operators, with stand-ins for the kernels: what the efficient
kernel and cuDNN are given, ROCm, the schemas of all releases, and trials that fail."""

import json
import logging
import pathlib
import re

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import standins  # noqa: E402
from test_torch_kernels import CU_K, CU_Q, close_with_gradients, halves  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import aten, cudnn, efficient, flash, table, trial  # noqa: E402

DATA = pathlib.Path(__file__).parent / "data" / "torch_schemas.json"


def release(text):
    return tuple(int(part) for part in text.split(".")[:2])


@pytest.fixture
def t4(monkeypatch):
    with standins.torchs_kernels(monkeypatch, (7, 5), "torch_efficient") as seen:
        yield seen


# The efficient kernel.


def test_bfloat16_is_computed_in_float32_on_a_gpu_without_it(t4):
    leaves = halves((2, 11, 4, 60), (2, 17, 2, 60), (2, 17, 2, 36))
    out, lse, _ = anyflash.flash_attn_func(*leaves, causal=True, return_attn_probs=True)
    want, want_lse = formula.dense(*leaves, causal=True)
    assert out.dtype == torch.bfloat16
    formula.close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    assert {x["query"].dtype for _, x in t4.calls} == {torch.float32}
    anyflash.flash_attn_func(*[x.half() for x in leaves])
    assert t4.calls[-1][1]["query"].dtype == torch.float16


def test_a_window_to_the_left_is_the_kernels_own(t4):
    leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64), dtype=torch.half)
    options = {"causal": True, "window_size": (4, -1)}
    out = anyflash.flash_attn_func(*leaves, **options)
    close_with_gradients(out, formula.dense(*leaves, causal=True, window=(4, -1))[0], leaves)
    given = [x for name, x in t4.calls if name.startswith("efficient")]
    assert given[-1]["window_size"] == 5 and given[-1]["bias"] is None


def test_other_windows_are_a_bias_up_to_a_limit(t4, monkeypatch):
    leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64), dtype=torch.half)
    out = anyflash.flash_attn_func(*leaves, window_size=(4, 2))
    close_with_gradients(out, formula.dense(*leaves, window=(4, 2))[0], leaves)
    assert t4.calls[-1][1]["bias"].stride(2) % 8 == 0
    monkeypatch.setattr(efficient, "MOST_BIAS", 11 * 17 - 1)
    with pytest.raises(NotImplementedError, match="supports this window only up to 186 scores"):
        anyflash.flash_attn_func(*leaves, window_size=(4, 2))


def test_alibi_is_a_bias_in_float32_with_gradients(t4):
    leaves = halves((23, 4, 64), (31, 2, 64), (31, 2, 64), dtype=torch.half)
    slopes = torch.tensor([[0.5, 0.25, 0.125, 0.1], [0.1, 0.2, 0.3, 0.4]])
    options = {"causal": True, "alibi_slopes": slopes}
    out = anyflash.flash_attn_varlen_func(*leaves, CU_Q, CU_K, 18, 22, **options)
    want = formula.packed(*leaves, CU_Q, CU_K, causal=True, slopes=slopes)[0]
    close_with_gradients(out, want, leaves)
    assert t4.calls[-1][1]["bias"].dtype == torch.float32


def test_rows_without_keys_are_zero_and_have_no_gradient(t4):
    cu_k = torch.tensor([0, 2, 9], dtype=torch.int32)  # fewer keys than queries
    leaves = halves((23, 4, 64), (9, 2, 64), (9, 2, 64), dtype=torch.half)
    out, lse, _ = anyflash.flash_attn_varlen_func(
        *leaves, CU_Q, cu_k, 18, 7, causal=True, return_attn_probs=True
    )
    want, want_lse = formula.packed(*leaves, CU_Q, cu_k, causal=True)
    formula.close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    assert torch.isinf(lse).sum() == 4 * (3 + 11)


@pytest.mark.parametrize("packed", (False, True))
def test_sinks_and_their_gradient(t4, packed):
    from anyflash.providers.call import LSE, Call

    sinks = torch.randn(4).requires_grad_()
    shapes = ((23, 4, 64), (31, 2, 64), (31, 2, 64))
    if not packed:
        shapes = ((2, 21, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
    leaves = halves(*shapes, dtype=torch.half)
    call = Call(*leaves, 0.0, None, True, (5, -1), 0.0, None, False, LSE)
    call.sinks = sinks
    options = {"causal": True, "window": (5, -1), "sinks": sinks}
    if packed:
        call.cu_q, call.cu_k, call.max_q, call.max_k = CU_Q, CU_K, 18, 22
        want, want_lse = formula.packed(*leaves, CU_Q, CU_K, **options)
    else:
        want, want_lse = formula.dense(*leaves, **options)
    out, lse, _ = providers.attend(call)
    formula.close(lse, want_lse)
    close_with_gradients(out, want, [*leaves, sinks])


def test_a_decode_step_folds_groups_of_heads_into_rows(t4, monkeypatch):
    monkeypatch.setattr(aten, "EFFICIENT_GROUPS", False)
    q, k, v = [x.detach() for x in halves((2, 1, 8, 32), (2, 40, 2, 32), (2, 40, 2, 32))]
    q, k, v = q.half(), k.half(), v.half()
    news = [k[:, :1] + 1, v[:, :1] + 1]
    options = {"cache_seqlens": torch.tensor([7, 0], dtype=torch.int32), "causal": True}
    ours = [k.clone(), v.clone()]
    found = anyflash.flash_attn_with_kvcache(q, *ours, *news, **options)
    given = t4.calls[-1][1]
    assert given["query"].shape == (1, 2 * 4, 2, 32) and given["key"].shape == (1, 80, 2, 32)
    assert given["seqlen_k"].tolist() == [8, 1] and given["custom_mask_type"] == 0
    providers.force("engine")
    formula.close(found, anyflash.flash_attn_with_kvcache(q, k, v, *news, **options))


def test_key_heads_are_passed_as_they_are_from_torch_2_14_on(t4):
    leaves = halves((1, 9, 4, 32), (1, 9, 2, 32), (1, 9, 2, 32), dtype=torch.half)
    anyflash.flash_attn_func(*leaves)
    assert aten.EFFICIENT_GROUPS == (release(torch.__version__) >= (2, 14))
    heads = t4.calls[-1][1]["key"].shape[2]
    assert heads == (2 if aten.EFFICIENT_GROUPS else 4)


@pytest.mark.parametrize("provider", ("torch_flash", "torch_efficient"))
def test_dropout_is_passed_to_both_passes(monkeypatch, provider):
    with standins.torchs_kernels(monkeypatch, provider=provider) as seen:
        leaves = halves((1, 9, 4, 32), (1, 9, 4, 32), (1, 9, 4, 32), dtype=torch.half)
        anyflash.flash_attn_func(*leaves, dropout_p=0.25).sum().backward()
        assert [x["dropout_p"] for _, x in seen.calls[-2:]] == [0.25, 0.25]


@pytest.mark.parametrize("provider", ("torch_flash", "torch_efficient"))
def test_gradients_are_deterministic_on_demand(monkeypatch, provider):
    switches = []
    with standins.torchs_kernels(monkeypatch, provider=provider) as seen:
        (q,) = halves((1, 9, 2, 32))
        for exact in (False, True):  # also runs the trials
            anyflash.flash_attn_func(q, q, q, deterministic=exact)
        seen.watch = lambda: switches.append(torch.are_deterministic_algorithms_enabled())
        anyflash.flash_attn_func(q, q, q, deterministic=True).sum().backward()
        anyflash.flash_attn_func(q, q, q).sum().backward()
    assert switches == [True, False] and not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("case", ("dense", "packed", "sinks", "window", "decode"))
def test_the_efficient_kernel_compiles_into_one_graph(t4, case):
    if not aten.TRACED:
        return
    torch._dynamo.reset()
    if case == "decode":
        q, k, v = [x.detach().half() for x in halves((2, 1, 8, 32), *[(2, 40, 2, 32)] * 2)]
        options = {"cache_seqlens": torch.tensor([7, 9], dtype=torch.int32), "causal": True}
        function, given = anyflash.flash_attn_with_kvcache, (q, k, v)
    elif case == "packed":
        given = halves((23, 4, 64), (31, 2, 64), (31, 2, 64), dtype=torch.half)
        given = (*given, CU_Q, CU_K, 18, 22)
        function, options = anyflash.flash_attn_varlen_func, {"causal": True}
    else:
        given = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64), dtype=torch.half)
        function = anyflash.flash_attn_func
        options = {"causal": True, "window_size": (3, 1 if case == "window" else 0)}
        options["causal"] = case != "window"
    if not aten.TRACED_EFFICIENT_GRADIENT:
        given = [x.detach() for x in given[:3]] + list(given[3:])
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given, **options), function(*given, **options))


# cuDNN.


@pytest.mark.parametrize("packed", (False, True))
def test_cudnn_computes_what_it_takes(monkeypatch, packed):
    if aten.missing("cudnn") or (packed and not aten.PACKED_CUDNN):
        return
    with standins.torchs_kernels(monkeypatch, (9, 0), "torch_cudnn") as seen:
        options = {"causal": True, "return_attn_probs": True}
        if packed:
            leaves = halves((23, 4, 60), (23, 2, 60), (23, 2, 60))
            given = (*leaves, CU_Q, CU_Q, 18, 18)
            out, lse, _ = anyflash.flash_attn_varlen_func(*given, **options)
            want, want_lse = formula.packed(*leaves, CU_Q, CU_Q, causal=True)
        else:
            leaves = halves((2, 17, 4, 60), (2, 17, 2, 60), (2, 17, 2, 36))
            out, lse, _ = anyflash.flash_attn_func(*leaves, **options)
            want, want_lse = formula.dense(*leaves, causal=True)
        formula.close(lse, want_lse)
        close_with_gradients(out, want, leaves)
        name = "packed cudnn" if packed else "cudnn"
        assert seen.names() == {name, f"{name} backward"}


def test_cudnn_is_preferred_on_hopper_and_data_centre_blackwell_only(monkeypatch):
    (q,) = halves((1, 256, 2, 64))
    took = {}
    for capability in ((8, 0), (9, 0), (10, 0), (12, 0)):
        with standins.torchs_kernels(monkeypatch, capability, None):
            found = anyflash.explain(q, q, q, causal=True)
            took[capability] = dict(found.declined).get("torch_cudnn", "taken")
            assert (found.provider == "torch_cudnn") == (took[capability] == "taken")
    if aten.missing("cudnn"):
        return
    assert took[9, 0] == took[10, 0] == "taken"
    assert took[8, 0] == "requires compute capability 9.0 to 10.3, not 8.0"
    assert took[12, 0].endswith("not 12.0")


@pytest.mark.parametrize(
    "reason, version, options",
    (
        ("requires cuDNN 9.18, but this torch has 9.10", 91002, {}),
        ("requires cuDNN 9.18, but this torch has none", 0, {}),
        ("requires cuDNN 9.26 for the gradient of this number of keys", 92400, {}),
        ("has no window", 92600, {"window_size": (3, 0)}),
        ("has no deterministic gradient", 92600, {"deterministic": True}),
    ),
)
def test_what_cudnn_lacks_is_declined_with_the_reason(monkeypatch, reason, version, options):
    if aten.missing("cudnn"):
        return
    (q,) = halves((1, 192, 2, 64))
    with standins.torchs_kernels(monkeypatch, (9, 0), "torch_cudnn"):
        monkeypatch.setattr(cudnn, "version", lambda: version)
        with pytest.raises(NotImplementedError, match=reason):
            anyflash.flash_attn_func(q, q, q, **options)


# ROCm.


def test_rocm_gets_a_cache_as_sequences_with_holes(monkeypatch):
    with standins.torchs_kernels(monkeypatch, provider="torch_flash", rocm="7.0") as seen:
        q, k, v = [x.detach() for x in halves((2, 3, 4, 32), (2, 40, 2, 32), (2, 40, 2, 32))]
        options = {"cache_seqlens": torch.tensor([5, 31], dtype=torch.int32), "causal": True}
        found = anyflash.flash_attn_with_kvcache(q, k, v, **options)
        given = seen.calls[-1][1]
        assert given["cum_seq_q"].tolist() == [0, 3, 3, 6, 6]
        assert given["cum_seq_k"].tolist() == [0, 5, 40, 71, 80]
        providers.force("engine")
        formula.close(found, anyflash.flash_attn_with_kvcache(q, k, v, **options))


@pytest.mark.parametrize(
    "capability, rocm, yes",
    [
        ((7, 0), None, "torch_efficient"),
        ((8, 9), None, "torch_flash"),
        ((9, 0), None, "torch_cudnn"),
        ((9, 4), "6.4", "torch_flash"),
    ],
)
def test_the_table_of_a_gpu_fits_a_screen(capability, rocm, yes, monkeypatch, capsys):
    names = [name for name, _ in providers.PROVIDERS]
    monkeypatch.setattr(providers, "names_of", lambda device: names)
    with standins.torchs_kernels(monkeypatch, capability, None, rocm):
        rows = [table.row(name, torch.device("cpu")) for name in names]
    table._say({"torch": torch.__version__, "gpu": "a GPU", "forced": None,
                "providers": [dict(zip(("name", "works", "text"), row)) for row in rows]})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert all(text for _, _, text in rows)
    if yes == "torch_cudnn" and aten.missing("cudnn"):
        yes = "torch_flash"
    assert next(name for name, works, _ in rows if works) == yes


def test_rocm_asks_for_no_compute_capability(monkeypatch):
    def ask(device):
        raise AssertionError("the capability of a GPU under ROCm")

    (q,) = halves((1, 256, 2, 64))
    with standins.torchs_kernels(monkeypatch, provider=None, rocm="7.0"):
        for module in (flash, efficient, cudnn):
            monkeypatch.setattr(module, "capability", ask)
        found = anyflash.explain(q, q, q, causal=True)
        assert found.provider == "torch_flash"
        assert dict(found.declined)["torch_cudnn"] == "is not available under ROCm"


def test_rocm_that_aligns_causal_masks_differently_serves_equal_lengths(monkeypatch):
    def top_left(kernel, q, k, v, **options):
        if options["causal"]:
            keys = q.shape[1]  # a key past the last query is never seen
            k = torch.nn.functional.pad(k[:, :keys], (0, 0, 0, 0, 0, max(0, keys - k.shape[1])))
            v = torch.nn.functional.pad(v[:, :keys], (0, 0, 0, 0, 0, max(0, keys - v.shape[1])))
        return right(kernel, q, k, v, **options)

    q, k, _ = halves((1, 20, 2, 64), (1, 30, 2, 64), (1, 1, 1, 1))
    with standins.torchs_kernels(monkeypatch, provider="torch_flash", rocm="6.3"):
        right = aten.attend
        monkeypatch.setattr(aten, "attend", top_left)
        formula.close(anyflash.flash_attn_func(q, q, q, causal=True),
              formula.dense(q, q, q, causal=True)[0])
        with pytest.raises(NotImplementedError, match="misses a known answer"):
            anyflash.flash_attn_func(q, k, k, causal=True)


# Schemas of torch's releases.


def schemas():
    return json.loads(DATA.read_text())["schemas"]


def test_every_schema_read_is_known_and_only_old_cudnn_differs():
    different = {}
    for row in schemas():
        schema = torch._C.parse_schema(row["schema"])
        reason = aten.differs(schema, aten._KNOWN[row["operator"]])
        if reason is not None:
            different[row["operator"]] = row["releases"], reason
    assert different == {
        "_scaled_dot_product_cudnn_attention": (
            ["2.4.1"], "has dropout_p where attn_bias is expected"),
        "_scaled_dot_product_cudnn_attention_backward": (
            ["2.4.1"], "has cum_seq_q where philox_seed is expected"),
    }  # fmt: skip


def test_the_recorded_schemas_are_those_of_this_torch():
    if all(torch.__version__.split("+")[0] not in row["releases"] for row in schemas()):
        return
    for row in schemas():
        if torch.__version__.split("+")[0] in row["releases"]:
            ours = getattr(torch.ops.aten, row["operator"]).default._schema
            theirs = torch._C.parse_schema(row["schema"])
            assert str(ours) == str(theirs)


def test_the_table_of_differences_follows_from_the_schemas():
    for row in schemas():
        if row["operator"] != "_flash_attention_forward":
            continue
        schema = torch._C.parse_schema(row["schema"])
        pages = any(argument.name == "block_table" for argument in schema.arguments)
        for text in row["releases"]:
            (found,) = [
                known[2:4]
                for known in aten.SCHEMAS
                if release(known[0]) <= release(text) <= release(known[1])
            ]
            assert found == (schema.returns[2].name, pages)


@pytest.mark.parametrize(
    "change, reason",
    (
        (("Tensor key", "Tensor keys"), "has keys where key is expected"),
        (("float? scale=None", "float? scale=None, int new"), "requires new, which is unknown"),
        (("bool return_debug_mask, *", "*"), "has scale where return_debug_mask is expected"),
    ),
)
def test_an_operator_of_a_future_torch_is_declined(monkeypatch, caplog, change, reason):
    text = schemas()[2]["schema"]
    if "int new" in change[1]:  # a required argument at the end
        text = text.replace(") ->", ", int new) ->")
    else:
        text = text.replace(*change)
    future = torch._C.parse_schema(text)
    monkeypatch.setattr(aten, "_found", {})
    monkeypatch.setattr(
        aten, "_schema", lambda name: future if name == "_flash_attention_forward" else None
    )
    (q,) = halves((1, 9, 2, 64))
    with standins.torchs_kernels(monkeypatch, provider=None):
        standins.as_on_a_gpu(monkeypatch)
        with caplog.at_level(logging.INFO, logger="anyflash"):
            for _ in range(3):
                found = dict(anyflash.explain(q, q, q).declined)
                formula.close(anyflash.flash_attn_func(q, q, q), formula.dense(q, q, q)[0])
    assert found["torch_flash"].endswith(reason)
    assert found["torch_efficient"].endswith("has no _efficient_attention_forward")
    assert found["torch_efficient"].startswith(f"torch {torch.__version__} has no ")
    said = [r.getMessage() for r in caplog.records if "flash kernel is not" in r.getMessage()]
    assert said == [f"torch's flash kernel is not used: {found['torch_flash']}"]


# Trials that fail.


def nan(kernel, q, k, v, **options):
    return torch.full_like(q, torch.nan), torch.zeros(1)


def wrong_shape(kernel, q, k, v, **options):
    return q[:, :1], torch.zeros(1)


def wrong_type(kernel, q, k, v, **options):
    return torch.zeros_like(q, dtype=torch.float64), torch.zeros(1)


def nothing(kernel, q, k, v, **options):
    return None


def raises(kernel, q, k, v, **options):
    raise RuntimeError("no kernel image is available\nmore lines")


@pytest.mark.parametrize(
    "attend, reason",
    (
        (nan, "returns values that are not finite for a known answer"),
        (wrong_shape, r"returns the shape \(3, 1, 4, 64\) where \(3, 150, 4, 64\) is expected"),
        (wrong_type, "returns torch.float64 where torch.bfloat16 is expected"),
        (nothing, "fails its trial: cannot unpack non-iterable NoneType object"),
        (raises, "fails its trial: no kernel image is available"),
    ),
)
def test_a_provider_that_fails_its_trial_is_passed_over_and_named_once(
    monkeypatch, caplog, attend, reason
):
    q = halves((1, 200, 4, 64))[0].detach()
    with standins.torchs_kernels(monkeypatch, provider="torch_flash"):
        monkeypatch.setattr(aten, "attend", attend)
        with caplog.at_level(logging.INFO, logger="anyflash"):
            for _ in range(3):
                with pytest.raises(NotImplementedError, match=reason):
                    anyflash.flash_attn_func(q, q, q)
        said = [r.getMessage() for r in caplog.records if "is not used" in r.getMessage()]
        assert len(said) == 1 and said[0].startswith("'torch_flash' is not used on cpu")
        providers.force(None)
        standins.as_on_a_gpu(monkeypatch)
        found = anyflash.explain(q, q, q)
        assert re.match(reason, dict(found.declined)["torch_flash"])
        assert found.provider in ("engine", "sdpa")  # torch_efficient calls the same function
        formula.close(anyflash.flash_attn_func(q, q, q), formula.dense(q, q, q)[0])


def test_a_trial_is_of_the_calls_kind(t4):
    q = halves((1, 9, 4, 32), dtype=torch.half)[0]
    anyflash.flash_attn_func(q, q, q, causal=True)
    anyflash.flash_attn_func(q, q[:, :5], q[:, :5], causal=True)
    kinds = [key[-1] for key in trial._known]
    assert kinds == [("gradient", "causal", "square"), ("gradient", "causal")]
