"""Who computes what: the ladder, explain(), forcing one, torch's CUDA kernels by stand-ins
for their operators, and an installed flash_attn that works, is wrong, dies or hangs."""

import json
import logging
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import standins  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import aten, kept, real, table, trial  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CU_Q = torch.tensor([0, 5, 23], dtype=torch.int32)
CU_K = torch.tensor([0, 9, 31], dtype=torch.int32)


def halves(*shapes, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def close(have, want, bound=0.02):
    assert have.shape == want.shape
    have, want = have.detach().double(), want.detach().double()
    infinite = torch.isinf(want)
    assert torch.equal(torch.isinf(have), infinite)
    off = torch.where(infinite, 0.0, have - want).abs().max()
    assert off < bound * max(1.0, float(torch.where(infinite, 0.0, want).abs().max()))


def close_with_gradients(found, wanted, leaves):
    close(found, wanted)
    weight = torch.randn_like(found)
    for have, want in zip(
        torch.autograd.grad(found, leaves, weight),
        torch.autograd.grad(wanted, leaves, weight.double(), retain_graph=True),
    ):
        close(have, want)


@pytest.fixture
def kernels(monkeypatch):
    with standins.torchs_kernels(monkeypatch) as seen:
        yield seen


# The ladder.


def test_cpu_tensors_go_to_the_engine_and_what_it_declines_to_sdpa():
    q = torch.randn(1, 4, 2, 32)
    found = anyflash.explain(q, q, q, causal=True)
    assert found.provider == "engine" and found.kernel.startswith("af_")
    assert [name for name, _ in found.declined] == ["flash_attn", "torch"]
    double = q.double()
    found = anyflash.explain(double, double, double)
    assert found.provider == "sdpa"
    assert ("engine", "computes float32, bfloat16 and float16, q is torch.float64") in (
        found.declined
    )
    assert anyflash.explain(double, double, double, softcap=2.0).provider == "plain"


def test_an_explanation_is_text():
    q = torch.randn(1, 4, 2, 32, dtype=torch.float64)
    lines = str(anyflash.explain(q, q, q)).splitlines()
    assert lines[0] == "sdpa" and "  torch: are CUDA kernels, q is on cpu" in lines


def test_explain_takes_the_options_of_every_function():
    q = torch.randn(14, 2, 32)
    cu = torch.tensor([0, 5, 14], dtype=torch.int32)
    lengths = {"cu_seqlens_q": cu, "cu_seqlens_k": cu, "max_seqlen_q": 9, "max_seqlen_k": 9}
    assert anyflash.explain(q, q, q, **lengths, window_size=(3, 0)).provider == "engine"
    q, cache = torch.randn(2, 1, 2, 32), torch.randn(2, 8, 2, 32)
    found = anyflash.explain(q, cache, cache, cache_seqlens=3, k_new=q, v_new=q)
    assert found.provider == "engine"
    with pytest.raises(TypeError, match="unexpected option 'windowsize'"):
        anyflash.explain(q, q, q, windowsize=3)
    with pytest.raises(ValueError, match="k: head size"):
        anyflash.explain(q, q[..., :8], q[..., :8])


def test_a_provider_that_is_forced_and_declines_is_an_error():
    q = torch.randn(1, 4, 2, 32)
    before = providers.force("torch")
    try:
        with pytest.raises(NotImplementedError, match="'torch' are CUDA kernels"):
            anyflash.flash_attn_func(q, q, q)
        found = anyflash.explain(q, q, q)
        assert found.provider is None and ("engine", "'torch' is forced") in found.declined
    finally:
        providers.force(before)
    with pytest.raises(ValueError, match="'nobody' is no provider; there are flash_attn"):
        providers.force("nobody")


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path]),
             **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_environment_variable_forces_and_fails_loudly():
    code = (
        "import torch, anyflash; q = torch.randn(1, 4, 2, 32)\n"
        "print(anyflash.explain(q, q, q).provider)\n"
        "anyflash.flash_attn_func(q, q, q, softcap=1.0)"
    )
    done = run(code, ANYFLASH_PROVIDER="sdpa")
    assert done.stdout == "sdpa\n" and "NoProvider: 'sdpa' has no softcap" in done.stderr
    done = run("import anyflash; anyflash.flash_attn_func", ANYFLASH_PROVIDER="x")
    assert "ANYFLASH_PROVIDER: 'x' is no provider" in done.stderr


def test_the_first_use_of_a_provider_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(providers, "_announced", set())
    q = torch.randn(1, 4, 2, 32)
    with caplog.at_level(logging.INFO, logger="anyflash"):
        for _ in range(3):
            anyflash.flash_attn_func(q, q, q)
    assert [r.getMessage() for r in caplog.records] == [
        "attention on cpu is computed by 'engine'"
    ]


def test_importing_the_package_or_its_providers_imports_no_torch():
    done = run("import sys, anyflash, anyflash.providers; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


# The table.


def test_the_table_names_every_provider(capsys):
    assert table.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"torch {torch.__version__}")
    assert [line.split()[1] for line in lines[1:]] == [name for name, _ in providers.LADDER]


def test_the_table_without_torch(capsys, monkeypatch):
    monkeypatch.setattr(table.importlib.util, "find_spec", lambda name: None)
    assert table.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no torch") and "yes  engine" in out
    assert "torch is not installed" in out


def test_the_command_takes_no_arguments(capsys):
    assert table.main(["--help"]) == 0 and "usage" in capsys.readouterr().out
    assert table.main(["x"]) == 2 and "unexpected argument 'x'" in capsys.readouterr().err
    done = run("import sys; sys.argv = ['anyflash', 'providers']\n"
               "from anyflash.__main__ import main; main()")
    assert done.returncode == 0 and "engine" in done.stdout, done.stderr


# torch's CUDA kernels.


def version(text):
    return tuple(int(part) for part in text.split(".")[:2])


def test_the_table_of_schemas_is_that_of_this_torch():
    ours = version(torch.__version__)
    rows = [row for row in aten.SCHEMAS if version(row[0]) <= ours <= version(row[1])]
    if not rows:  # a release between two that were read is like one of them
        rows = aten.SCHEMAS
    found = (aten.RANDOM_STATE, aten.TAKES_PAGES, meta_layout())
    assert found in [row[2:] for row in rows]


def meta_layout():
    q = torch.empty(23, 2, 32, dtype=torch.float16, device="meta")
    lse = torch.ops.aten._flash_attention_forward(
        q, q, q, CU_Q.to("meta"), CU_Q.to("meta"), 18, 18, 0.0, False, False
    )[1]
    return "packed" if lse.dim() == 2 else "padded"


OPTIONS = (
    {},
    {"causal": True},
    {"window_size": (6, 2)},
    {"causal": True, "window_size": (4, 9)},
    {"softmax_scale": 0.3},
)


def by_formula(options):
    names = {"window_size": "window", "softmax_scale": "scale", "alibi_slopes": "slopes"}
    return {names.get(name, name): value for name, value in options.items()}


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "none")
def test_flash_computes_dense_and_packed_attention(kernels, options):
    leaves = halves((2, 11, 4, 60), (2, 17, 2, 60), (2, 17, 2, 60))
    out, lse, _ = anyflash.flash_attn_func(*leaves, return_attn_probs=True, **options)
    want, want_lse = formula.dense(*leaves, **by_formula(options))
    close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    leaves = halves((23, 4, 64), (31, 2, 64), (31, 2, 64))
    out, lse, _ = anyflash.flash_attn_varlen_func(
        *leaves, CU_Q, CU_K, 18, 22, return_attn_probs=True, **options
    )
    want, want_lse = formula.packed(*leaves, CU_Q, CU_K, **by_formula(options))
    close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    assert {name for name, _ in kernels.calls} == {"flash", "flash backward"}


def test_flash_is_given_heads_as_they_are_and_sizes_in_eights(kernels):
    leaves = halves((1, 9, 6, 20), (1, 9, 2, 20), (1, 9, 2, 12))
    out = anyflash.flash_attn_func(*leaves, causal=True)
    close_with_gradients(out, formula.dense(*leaves, causal=True)[0], leaves)
    given = kernels.calls[-1][1]
    assert given["query"].shape == (1, 9, 6, 24) and given["value"].shape == (1, 9, 2, 24)


def test_a_window_without_a_limit_is_not_given(kernels):
    leaves = halves((1, 9, 2, 32), (1, 9, 2, 32), (1, 9, 2, 32))
    anyflash.flash_attn_func(*leaves, causal=True)
    given = kernels.calls[-1][1]
    assert given["is_causal"] and given["window_size_left"] is None
    assert given["window_size_right"] == 0 and given["scale"] == pytest.approx(32**-0.5)


@pytest.mark.parametrize("shapes", ("dense", "packed"))
def test_sinks_and_their_gradient(kernels, shapes):
    from anyflash.providers.call import LSE, Call

    sinks = torch.randn(4).requires_grad_()
    if shapes == "dense":
        leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
    else:
        leaves = halves((23, 4, 64), (31, 2, 64), (31, 2, 64))
    call = Call(*leaves, 0.0, None, True, (5, -1), 0.0, None, False, LSE)
    call.sinks = sinks
    options = {"causal": True, "window": (5, -1), "sinks": sinks}
    if shapes == "dense":
        want, want_lse = formula.dense(*leaves, **options)
    else:
        call.cu_q, call.cu_k, call.max_q, call.max_k = CU_Q, CU_K, 18, 22
        want, want_lse = formula.packed(*leaves, CU_Q, CU_K, **options)
    for provider in ("torch", "plain"):
        providers.force(provider)
        out, lse, _ = providers.attend(call)
        close(lse, want_lse)
        close_with_gradients(out, want, [*leaves, sinks])


def test_alibi_is_computed_forward_and_declined_with_gradients(kernels):
    leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.1])
    with torch.no_grad():
        out = anyflash.flash_attn_func(*leaves, causal=True, alibi_slopes=slopes)
    close(out, formula.dense(*leaves, causal=True, slopes=slopes)[0])
    with pytest.raises(NotImplementedError, match="no gradient with ALiBi"):
        anyflash.flash_attn_func(*leaves, alibi_slopes=slopes)


def test_a_deterministic_gradient_is_asked_for_while_it_is_computed(kernels):
    switches = []
    leaves = halves((1, 9, 2, 32), (1, 9, 2, 32), (1, 9, 2, 32))
    anyflash.flash_attn_func(*leaves)  # and the trial of the kernel
    kernels.watch = lambda: switches.append(torch.are_deterministic_algorithms_enabled())
    anyflash.flash_attn_func(*leaves, deterministic=True).sum().backward()
    anyflash.flash_attn_func(*leaves).sum().backward()
    assert switches == [True, False]
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("capability, dtype", (((8, 0), torch.float32), ((7, 5), torch.half)))
def test_the_efficient_kernel_serves_float32_and_older_gpus(monkeypatch, capability, dtype):
    with standins.torchs_kernels(monkeypatch, capability) as seen:
        leaves = halves((2, 11, 4, 60), (2, 17, 2, 60), (2, 17, 2, 36), dtype=dtype)
        out, lse, _ = anyflash.flash_attn_func(*leaves, causal=True, return_attn_probs=True)
        want, want_lse = formula.dense(*leaves, causal=True)
        close(lse, want_lse)
        close_with_gradients(out, want, leaves)
        leaves = halves((31, 4, 64), (31, 2, 64), (31, 2, 64), dtype=dtype)
        out, lse, _ = anyflash.flash_attn_varlen_func(
            *leaves, CU_K, CU_K, 22, 22, causal=True, return_attn_probs=True
        )
        want, want_lse = formula.packed(*leaves, CU_K, CU_K, causal=True)
        close(lse, want_lse)
        close_with_gradients(out, want, leaves)
        names = {name for name, _ in seen.calls}
        assert names == {"efficient", "efficient backward"}
        with pytest.raises(NotImplementedError, match="efficient: no window"):
            anyflash.flash_attn_func(*halves(*[(1, 9, 2, 32)] * 3, dtype=dtype),
                                     window_size=(3, 3))


def cache_case(keys=40):
    q, k, v = halves((2, 3, 4, 32), (2, keys, 2, 32), (2, keys, 2, 32))
    news = halves((2, 3, 2, 32), (2, 3, 2, 32))
    lengths = torch.tensor([5, 31], dtype=torch.int32)
    return q.detach(), [k.detach(), v.detach()], [n.detach() for n in news], lengths


@pytest.mark.parametrize("interleaved", (True, False))
def test_a_cache_is_appended_to_before_the_kernel(kernels, interleaved):
    q, caches, news, lengths = cache_case()
    angles = torch.rand(40, 8)
    tables = {"rotary_cos": angles.cos(), "rotary_sin": angles.sin(),
              "rotary_interleaved": interleaved, "causal": True, "cache_seqlens": lengths}
    ours = [cache.clone() for cache in caches]
    found = anyflash.flash_attn_with_kvcache(
        q, *ours, *news, **tables, return_softmax_lse=True
    )
    providers.force("engine")
    want = anyflash.flash_attn_with_kvcache(
        q, *caches, *news, **tables, return_softmax_lse=True
    )
    for have, wanted in zip((*found, *ours), (*want, *caches)):
        close(have, wanted)
    assert torch.equal(ours[1], caches[1])
    given = kernels.calls[-1][1]
    assert given["seqused_k"].tolist() == [8, 34] and given["seqused_k"].dtype == torch.int32


def test_a_cache_by_batch_index_with_left_padding(kernels):
    q, caches, _, lengths = cache_case()
    options = {
        "cache_seqlens": lengths,
        "cache_batch_idx": torch.tensor([1, 0], dtype=torch.int32),
        "cache_leftpad": torch.tensor([2, 7], dtype=torch.int32),
        "causal": True,
    }
    found = anyflash.flash_attn_with_kvcache(q, *caches, **options)
    providers.force("engine")
    close(found, anyflash.flash_attn_with_kvcache(q, *caches, **options))


@pytest.mark.parametrize("size", (16, 256))
def test_pages_are_given_to_the_kernel_or_gathered(kernels, size):
    q, _, news, lengths = cache_case()
    pages = [x.detach() for x in halves((7, size, 2, 32), (7, size, 2, 32))]
    table = torch.tensor([[3, 0, 1], [6, 2, 5]], dtype=torch.int32)
    options = {"cache_seqlens": lengths, "block_table": table, "causal": True}
    ours = [page.clone() for page in pages]
    found = anyflash.flash_attn_with_kvcache(q, *ours, *news, **options)
    given = kernels.calls[-1][1]
    assert (given.get("block_table") is not None) == (aten.TAKES_PAGES and size == 256)
    providers.force("engine")
    close(found, anyflash.flash_attn_with_kvcache(q, *pages, *news, **options))
    assert torch.equal(ours[0], pages[0]) and torch.equal(ours[1], pages[1])


def test_packed_queries_over_pages(kernels):
    (q,) = halves((23, 4, 32))
    q, pages = q.detach(), [x.detach() for x in halves((7, 16, 2, 32), (7, 16, 2, 32))]
    table = torch.tensor([[3, 0], [6, 2]], dtype=torch.int32)
    given = (q, *pages, CU_Q, CU_K, 18, 22)
    options = {"block_table": table, "causal": True, "return_attn_probs": True}
    found = anyflash.flash_attn_varlen_func(*given, **options)
    providers.force("engine")
    want = anyflash.flash_attn_varlen_func(*given, **options)
    close(found[0], want[0])
    close(found[1], want[1])


@pytest.mark.parametrize("kind", ("dense", "packed"))
def test_flash_compiles_into_one_graph(kernels, kind):
    torch._dynamo.reset()
    if kind == "dense":
        leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
        more = ()
        function = anyflash.flash_attn_func
    else:
        leaves, more = halves((23, 4, 64), (31, 2, 64), (31, 2, 64)), (CU_Q, CU_K, 18, 22)
        function = anyflash.flash_attn_varlen_func
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    out, want = compiled(*leaves, *more, causal=True), function(*leaves, *more, causal=True)
    weight = torch.randn_like(out)
    assert torch.equal(out, want)
    for have, wanted in zip(
        torch.autograd.grad(out, leaves, weight), torch.autograd.grad(want, leaves, weight)
    ):
        assert torch.equal(have, wanted)


def test_what_the_kernels_lack_is_declined_with_the_reason(kernels):
    (q,) = halves((1, 9, 2, 32))
    wide = q.new_zeros(1, 9, 2, 264)
    for words, options, tensor in (
        ("have no softcap", {"softcap": 2.0}, q),
        ("flash: takes head sizes up to 256, here it is 264", {"causal": True,
         "window_size": (2, 0)}, wide),
        ("do not give the probabilities", {"dropout_p": 0.1, "return_attn_probs": True}, q),
        ("take no empty tensors", {}, q[:, :0]),
    ):
        with pytest.raises(NotImplementedError, match=words):
            anyflash.flash_attn_func(tensor, tensor, tensor, **options)


def test_a_kernel_that_misses_a_known_answer_is_declined(kernels, monkeypatch):
    (q,) = halves((1, 9, 2, 32))
    right = aten.flash
    monkeypatch.setattr(aten, "flash", lambda *a, **o: [x * 1.1 for x in right(*a, **o)])
    monkeypatch.setattr(trial, "_known", {})
    with pytest.raises(NotImplementedError, match="flash: misses a known answer by 1"):
        anyflash.flash_attn_func(q, q, q, window_size=(3, 3))

    def fails(*arguments, **options):
        raise RuntimeError("This flash attention build does not support alibi.\nmore")

    monkeypatch.setattr(aten, "flash", fails)
    monkeypatch.setattr(trial, "_known", {})
    with pytest.raises(NotImplementedError, match="does not support alibi.; efficient"):
        anyflash.flash_attn_func(q, q, q, window_size=(3, 3))


def test_a_trial_leaves_the_random_state_alone(kernels):
    (q,) = halves((1, 9, 2, 32))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    anyflash.flash_attn_func(q, q, q)
    assert torch.equal(torch.get_rng_state(), state)


# The real flash_attn.

PACKAGE = """
import os
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False,
                    window_size=(-1, -1)):
    import torch
    group = q.shape[2] // k.shape[2]
    q, k, v = q.float(), k.float().repeat_interleave(group, 2), v.float().repeat_interleave(
        group, 2)
    i = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    j = torch.arange(k.shape[1])
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if causal:
        mask &= j <= i
    if window_size[0] >= 0:
        mask &= j >= i - window_size[0]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v * FACTOR))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    return out.transpose(1, 2).half()
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """write(text): installs a flash_attn of that text, and asks about it as if afresh."""
    folder = tmp_path / "site"
    (folder / "flash_attn").mkdir(parents=True)
    (folder / "flash_attn_2_cuda.py").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(real, "DEVICES", ("cuda", "cpu"))

    def forget():
        for name in ("flash_attn", "flash_attn_2_cuda"):
            sys.modules.pop(name, None)
        real._failure.cache_clear()
        real._function.cache_clear()
        real.importlib.invalidate_caches()

    def write(text):
        (folder / "flash_attn" / "__init__.py").write_text(text)
        forget()
        q = torch.randn(1, 8, 2, 64).half()
        return dict(anyflash.explain(q, q, q).declined).get("flash_attn")

    yield write
    forget()


def test_a_flash_attn_that_works_computes(package):
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    q = torch.randn(1, 8, 2, 64).half()
    assert anyflash.explain(q, q, q).provider == "flash_attn"
    before = providers.force("flash_attn")
    out = anyflash.flash_attn_func(q, q, q, causal=True)
    providers.force(before)
    close(out, formula.dense(q, q, q, causal=True)[0])
    reason = dict(anyflash.explain(q, q, q, softcap=2.0).declined)["flash_attn"]
    assert reason == "of this release has no softcap"


def test_what_was_found_out_is_kept_by_the_file_s_hash(package, monkeypatch):
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    monkeypatch.setattr(real, "_known_answer", lambda *a: "asked again")
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    assert package(PACKAGE.replace("FACTOR", "1.0")) == "asked again"


@pytest.mark.parametrize(
    "text, reason",
    (
        (PACKAGE.replace("FACTOR", "1.3"), "misses a known answer by 30%"),
        ("import os; os.abort()", "ends the process that uses it (signal 6)"),
        ("import os; os._exit(3)", "ends the process that uses it (exit code 3)"),
        ("raise ImportError('undefined symbol: x')", "ImportError: undefined symbol: x"),
        ("__anyflash__ = '0'", "is this package's own"),
        ("", "ImportError: cannot import name 'flash_attn_func'"),
    ),
)
def test_a_flash_attn_that_does_not_work_is_passed_over_with_its_cause(package, text, reason):
    assert package(text).startswith(reason)
    q = torch.randn(1, 8, 2, 64).half()
    assert anyflash.flash_attn_func(q, q, q).shape == q.shape


def test_a_flash_attn_that_hangs_is_given_up(package, monkeypatch):
    monkeypatch.setattr(real, "SECONDS", 0.5)
    assert package("import time; time.sleep(600)") == "gives no answer in 0.5 s"


def test_flash_attn_without_its_extension_and_none_at_all(package, tmp_path):
    package("")
    (tmp_path / "site" / "flash_attn_2_cuda.py").unlink()
    assert package("") == "lacks its extension flash_attn_2_cuda"
    (tmp_path / "site" / "flash_attn").rename(tmp_path / "gone")
    real._failure.cache_clear()
    real.importlib.invalidate_caches()
    if real.importlib.util.find_spec("flash_attn") is None:
        assert real.failure(torch.device("cpu")) == "is not installed"


def test_a_cache_file_that_is_broken_is_as_good_as_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept.get({"a": 1}) is None
    kept.put({"a": 1}, "why")
    assert kept.get({"a": 1}) == "why"
    path = tmp_path / "anyflash" / "known_answers.json"
    for text in ("{", "[]", '{"answers": 3, "files": {}}', "\x00\xff", json.dumps({})):
        path.write_text(text)
        assert kept.get({"a": 1}) is None
        kept.put({"a": 1}, "")
        assert kept.get({"a": 1}) == ""
    path.unlink()
    path.mkdir()
    kept.put({"a": 1}, "why")
    assert kept.get({"a": 1}) is None
