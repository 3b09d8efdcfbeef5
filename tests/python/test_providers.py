"""Choosing a provider: their order, explain(), forcing one, the table; and an installed
flash_attn that works, gives wrong answers, crashes or hangs."""

import contextlib
import importlib.util
import json
import logging
import sys

import pytest
from conftest import python

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import standins  # noqa: E402
import anyflash  # noqa: E402
from anyflash import _result_cache, providers  # noqa: E402
from anyflash.providers import aten, packages, table, trial  # noqa: E402


# The order of providers.


@pytest.mark.parametrize("device", ("mps", "xpu"))
def test_the_table_says_that_a_provider_is_for_other_devices(device):
    found = table.row("torch_flash", torch.device(device))
    assert found == ("torch_flash", False, f"does not compute on torch's device {device}")


@pytest.mark.parametrize(
    "cuda, says", (("12.8", "torch finds none here"), (None, "a build without GPU support"))
)
def test_the_table_tells_a_missing_gpu_from_a_torch_without_gpus(cuda, says, monkeypatch):
    for name, version in (("cuda", cuda), ("hip", None), ("xpu", None)):
        monkeypatch.setattr(torch.version, name, version, raising=False)
    assert table.row("torch_flash", torch.device("cpu"))[2].endswith(says)


def test_cpu_tensors_go_to_the_engine_and_what_it_declines_to_sdpa():
    q = torch.randn(1, 4, 2, 32)
    found = anyflash.explain(q, q, q, causal=True)
    assert found.provider == "engine" and found.kernel.startswith("af_")
    assert [name for name, _ in found.declined] == [
        "flash_attn_3",
        "flash_attn_4",
        "torch_cudnn",
        "flash_attn",
        "hub",
        "torch_flash",
        "torch_efficient",
    ]
    double = q.double()
    found = anyflash.explain(double, double, double)
    assert found.provider == "sdpa"
    assert "q is torch.float64" in dict(found.declined)["engine"]
    assert anyflash.explain(double, double, double, softcap=2.0).provider == "plain"


def test_an_explanation_is_text():
    q = torch.randn(1, 4, 2, 32, dtype=torch.float64)
    lines = str(anyflash.explain(q, q, q)).splitlines()
    assert lines[0] == "sdpa"
    assert "  torch_flash: computes on CUDA devices, but q is on cpu" in lines
    assert "  hub: computes on CUDA and XPU devices, but q is on cpu" in lines
    assert lines[-1] == "  not asked: plain" and len(lines) == 1 + len(providers.PROVIDERS) - 1


def test_explain_takes_the_options_of_every_function():
    q = torch.randn(14, 2, 32)
    cu = torch.tensor([0, 5, 14], dtype=torch.int32)
    lengths = {"cu_seqlens_q": cu, "cu_seqlens_k": cu, "max_seqlen_q": 9, "max_seqlen_k": 9}
    assert anyflash.explain(q, q, q, **lengths, window_size=(3, 0)).provider == "engine"
    q, cache = torch.randn(2, 1, 2, 32), torch.randn(2, 8, 2, 32)
    found = anyflash.explain(q, cache, cache + 1, cache_seqlens=3, k_new=q, v_new=q)
    assert found.provider == "engine"
    with pytest.raises(TypeError, match="'windowsize'; did you mean 'window_size'\\?"):
        anyflash.explain(q, q, q, windowsize=3)
    with pytest.raises(ValueError, match="k: head size"):
        anyflash.explain(q, q[..., :8], q[..., :8])


def test_a_provider_that_is_forced_and_declines_is_an_error():
    q = torch.randn(1, 4, 2, 32)
    before = providers.force("torch_flash")
    try:
        with pytest.raises(NotImplementedError, match="'torch_flash' computes on CUDA"):
            anyflash.flash_attn_func(q, q, q)
        found = anyflash.explain(q, q, q)
        assert found.provider is None
        assert ("engine", "'torch_flash' is forced") in found.declined
    finally:
        providers.force(before)
    with pytest.raises(ValueError, match="'nobody' is not a provider .* hub, torch_flash"):
        providers.force("nobody")


def test_the_environment_variable_forces_and_fails_loudly():
    code = (
        "import torch, anyflash; q = torch.randn(1, 4, 2, 32)\n"
        "print(anyflash.explain(q, q, q).provider)\n"
        "anyflash.flash_attn_func(q, q, q, softcap=1.0)"
    )
    done = python(code, ANYFLASH_PROVIDER="sdpa")
    assert done.stdout == "sdpa\n" and "NoProvider: 'sdpa' has no softcap" in done.stderr
    for function in ("flash_attn_func", "explain"):
        code = "import torch, anyflash; q = torch.ones(1, 1, 1, 8); "
        done = python(code + f"anyflash.{function}(q, q, q)", ANYFLASH_PROVIDER="x")
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ValueError: 'x' is not a provider (ANYFLASH_PROVIDER); choose ")
        assert done.returncode == 1 and last.endswith("torch_efficient, engine, sdpa, plain")


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
    done = python("import sys, anyflash, anyflash.providers; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


# The table.


def test_the_table_names_every_provider(capsys):
    assert table.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"torch {torch.__version__}")
    rows = [line.split() for line in lines[1:] if not line.startswith(" " * 10)]
    assert [row[1] for row in rows] == [name for name, _ in providers.PROVIDERS]


#: Platforms: device type, compute capability, version of ROCm, who computes half precision.
PLATFORMS = {
    "T4": ("cuda", (7, 5), None, "torch_efficient"),
    "A100": ("cuda", (8, 0), None, "torch_flash"),
    "H100": ("cuda", (9, 0), None, "torch_flash torch_cudnn"),
    "MI300X": ("cuda", (9, 4), "7.0", "torch_flash"),
    "Arc": ("xpu", None, None, "sdpa"),
    "M3": ("mps", None, None, "sdpa"),
    "no GPU": ("cpu", None, None, "engine"),
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_gets_its_reasons_on_one_screen(platform, monkeypatch, capsys):
    """CPU tensors stand for those of each device."""
    kind, capability, rocm, wanted = PLATFORMS[platform]
    names = [name for name, _ in providers.PROVIDERS]
    of_device = {**providers._OF_DEVICE, "cpu": providers.names_of(kind)}
    monkeypatch.setattr(providers, "_OF_DEVICE", of_device)
    with contextlib.ExitStack() as kernels:
        if capability is not None:
            kernels.enter_context(standins.torchs_kernels(monkeypatch, capability, None, rocm))
        if kind not in ("cuda", "cpu"):
            engine = providers.load("engine")
            monkeypatch.setattr(engine, "declines", lambda call: "computes on the CPU")
        q = torch.randn(1, 256, 2, 64).half()
        found = anyflash.explain(q, q, q, causal=True)
        monkeypatch.setattr(table, "_accelerator", lambda: None)
        monkeypatch.setattr(table, "_gpu", lambda: platform)
        monkeypatch.setenv("ANYFLASH_PROVIDER", "nobody")
        assert table.main([]) == 0
    assert found.provider in wanted.split()
    lines, printed = str(found).splitlines(), capsys.readouterr().out.splitlines()
    assert lines[0] == found.provider and max(map(len, lines + printed)) <= 80
    assert len(lines) <= len(names) + 3 and len(printed) <= len(names) + 4
    told = [name for name, _ in found.declined]
    assert told == names[: len(told)] and names[len(told)] == found.provider
    after = lines[-1].partition("not asked: ")[2].split(", ")
    assert [*told, found.provider, *after] == names
    assert "'nobody', which is not a provider: every call fails" in " ".join(printed[:2])
    rows = [line for line in printed if line.startswith(("  yes  ", "  no   "))]
    assert [row.split()[1] for row in rows] == names
    worded = {row.split()[1]: row.split()[0] for row in rows}
    assert worded[found.provider] == "yes" and worded["plain"] == "yes"
    if kind in ("xpu", "mps", "cpu"):
        at = printed.index(next(row for row in rows if "torch_flash" in row))
        assert "needs a GPU; " in printed[at]


def test_the_table_names_a_type_that_fails_and_scrubs_what_packages_say(monkeypatch, capsys):
    with standins.torchs_kernels(monkeypatch, provider=None):
        right = aten.attend

        def attend(kernel, q, *rest, **options):
            if q.dtype == torch.bfloat16:
                raise RuntimeError("no \x1b[31mkernel")
            return right(kernel, q, *rest, **options)

        monkeypatch.setattr(aten, "attend", attend)
        as_cuda = {**providers._OF_DEVICE, "cpu": providers.names_of("cuda")}
        monkeypatch.setattr(providers, "_OF_DEVICE", as_cuda)
        monkeypatch.setattr(table, "_accelerator", lambda: None)
        assert table.main([]) == 0
    out = capsys.readouterr().out
    wanted = "yes torch_flash float16; bfloat16: fails its trial: no ?[31mkernel"
    assert wanted in " ".join(out.split()) and "\x1b" not in out


def test_the_table_without_torch(capsys, monkeypatch):
    monkeypatch.setattr(table.importlib.util, "find_spec", lambda name: None)
    assert table.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no torch") and "yes  engine" in out
    assert "torch is not installed" in out


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
    """write(text) installs a flash_attn with that text and asks about it, nothing cached."""
    folder = tmp_path / "site"
    (folder / "flash_attn").mkdir(parents=True)
    (folder / "flash_attn_2_cuda.py").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(folder))
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("shim/tree")]
    monkeypatch.setattr(trial, "_known", {})
    monkeypatch.setattr(packages, "DEVICES", ("cuda", "cpu"))

    def loaded():
        return {n: m for n, m in sys.modules.items() if n.startswith("flash_attn")}

    def forget():
        for name in loaded():
            del sys.modules[name]
        packages.flash_attn.forget()
        importlib.invalidate_caches()

    def write(text):
        (folder / "flash_attn" / "__init__.py").write_text(text)
        forget()
        q = torch.randn(1, 8, 2, 64).half()
        return dict(anyflash.explain(q, q, q).declined).get("flash_attn")

    others = loaded()  # the shim, loaded by other tests
    yield write
    forget()
    sys.modules.update(others)


def test_a_flash_attn_that_works_computes(package):
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    q = torch.randn(1, 8, 2, 64).half()
    assert anyflash.explain(q, q, q).provider == "flash_attn"
    before = providers.force("flash_attn")
    out = anyflash.flash_attn_func(q, q, q, causal=True)
    providers.force(before)
    formula.close(out, formula.dense(q, q, q, causal=True)[0])
    reason = dict(anyflash.explain(q, q, q, softcap=2.0).declined)["flash_attn"]
    assert reason == "has no softcap in this release"
    reason = dict(anyflash.explain(q, q, q, cache_seqlens=3).declined)["flash_attn"]
    assert reason == "has no flash_attn_with_kvcache in this release"


def test_what_was_found_out_is_kept_by_the_file_s_hash(package, monkeypatch):
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    monkeypatch.setattr(packages, "_known_answer", lambda *a: "asked again")
    assert package(PACKAGE.replace("FACTOR", "1")) is None
    assert package(PACKAGE.replace("FACTOR", "1.0")) == "asked again"


@pytest.mark.parametrize(
    "text, reason",
    (
        (PACKAGE.replace("FACTOR", "1.3"), "misses a known answer by 30%"),
        ("import os; os.abort()", "crashes the process that uses it (signal 6)"),
        ("import os; os._exit(3)", "ends the process that uses it (exit code 3)"),
        (PACKAGE.replace("FACTOR", "float('nan')"), "returns values that are not finite"),
        (PACKAGE.replace("FACTOR", "1").replace(".half()", "[:, 1:].half()"),
         "returns the shape (3, 149, 4, 64) where (3, 150, 4, 64) is expected"),
        (PACKAGE.replace("FACTOR", "1").replace(".half()", ""),
         "returns torch.float32 where torch.float16 is expected"),
        ("raise ImportError('undefined symbol: x')", "ImportError: undefined symbol: x"),
        ("__anyflash__ = '0'", "is the one that anyflash generated"),
        ("", "ImportError: cannot import name 'flash_attn_func'"),
    ),
)
def test_a_flash_attn_that_does_not_work_is_passed_over_with_its_cause(
    package, caplog, monkeypatch, text, reason
):
    with caplog.at_level(logging.INFO, logger="anyflash"):
        found = package(text)
        standins.as_on_a_gpu(monkeypatch)
        q = torch.randn(1, 8, 2, 64).half()
        for _ in range(2):
            formula.close(anyflash.flash_attn_func(q, q, q), formula.dense(q, q, q)[0])
            assert dict(anyflash.explain(q, q, q).declined)["flash_attn"] == found
    assert found.startswith(reason)
    said = [r.getMessage() for r in caplog.records if "flash_attn'" in r.getMessage()]
    if reason != "is the one that anyflash generated":
        assert said == [f"'flash_attn' is not used on cpu: {found}"]


def test_a_flash_attn_that_hangs_is_given_up(package, monkeypatch):
    monkeypatch.setattr(packages, "SECONDS", 0.5)
    assert package("import time; time.sleep(600)") == "did not answer within 0.5 s"


def test_flash_attn_without_its_extension_and_none_at_all(package, tmp_path):
    package("")
    (tmp_path / "site" / "flash_attn_2_cuda.py").unlink()
    assert package("") == "lacks its extension flash_attn_2_cuda"
    (tmp_path / "site" / "flash_attn").rename(tmp_path / "gone")
    packages.flash_attn.forget()
    importlib.invalidate_caches()
    if importlib.util.find_spec("flash_attn") is None:
        assert packages.flash_attn.failure(torch.device("cpu")) == "is not installed"


def test_a_cache_file_that_is_broken_is_as_good_as_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _result_cache.get({"a": 1}) is None
    _result_cache.put({"a": 1}, "why")
    assert _result_cache.get({"a": 1}) == "why"
    path = tmp_path / "anyflash" / "known_answers.json"
    for text in ("{", "[]", '{"answers": 3, "files": {}}', "\x00\xff", json.dumps({})):
        path.write_text(text)
        assert _result_cache.get({"a": 1}) is None
        _result_cache.put({"a": 1}, "")
        assert _result_cache.get({"a": 1}) == ""
    path.unlink()
    path.mkdir()
    _result_cache.put({"a": 1}, "why")
    assert _result_cache.get({"a": 1}) is None
