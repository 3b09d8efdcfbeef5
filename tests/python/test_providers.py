"""Choosing a provider: their order, explain(), forcing one, the table; and an installed
flash_attn that works, gives wrong answers, crashes or hangs."""

import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import packages, result_cache, table, trial  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]

def close(have, want, bound=0.02):
    assert have.shape == want.shape
    have, want = have.detach().double(), want.detach().double()
    infinite = torch.isinf(want)
    assert torch.equal(torch.isinf(have), infinite)
    off = torch.where(infinite, 0.0, have - want).abs().max()
    assert off < bound * max(1.0, float(torch.where(infinite, 0.0, want).abs().max()))


# The order of providers.


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


def test_explain_takes_the_options_of_every_function():
    q = torch.randn(14, 2, 32)
    cu = torch.tensor([0, 5, 14], dtype=torch.int32)
    lengths = {"cu_seqlens_q": cu, "cu_seqlens_k": cu, "max_seqlen_q": 9, "max_seqlen_k": 9}
    assert anyflash.explain(q, q, q, **lengths, window_size=(3, 0)).provider == "engine"
    q, cache = torch.randn(2, 1, 2, 32), torch.randn(2, 8, 2, 32)
    found = anyflash.explain(q, cache, cache + 1, cache_seqlens=3, k_new=q, v_new=q)
    assert found.provider == "engine"
    with pytest.raises(TypeError, match="unexpected option 'windowsize'"):
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
    assert "'x' is not a provider (ANYFLASH_PROVIDER)" in done.stderr


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
    rows = [line.split() for line in lines[1:] if not line.startswith(" " * 10)]
    assert [row[1] for row in rows] == [name for name, _ in providers.PROVIDERS]


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
    close(out, formula.dense(q, q, q, causal=True)[0])
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
        ("raise ImportError('undefined symbol: x')", "ImportError: undefined symbol: x"),
        ("__anyflash__ = '0'", "is the one that anyflash generated"),
        ("", "ImportError: cannot import name 'flash_attn_func'"),
    ),
)
def test_a_flash_attn_that_does_not_work_is_passed_over_with_its_cause(package, text, reason):
    assert package(text).startswith(reason)
    q = torch.randn(1, 8, 2, 64).half()
    assert anyflash.flash_attn_func(q, q, q).shape == q.shape


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
    assert result_cache.get({"a": 1}) is None
    result_cache.put({"a": 1}, "why")
    assert result_cache.get({"a": 1}) == "why"
    path = tmp_path / "anyflash" / "known_answers.json"
    for text in ("{", "[]", '{"answers": 3, "files": {}}', "\x00\xff", json.dumps({})):
        path.write_text(text)
        assert result_cache.get({"a": 1}) is None
        result_cache.put({"a": 1}, "")
        assert result_cache.get({"a": 1}) == ""
    path.unlink()
    path.mkdir()
    result_cache.put({"a": 1}, "why")
    assert result_cache.get({"a": 1}) is None
