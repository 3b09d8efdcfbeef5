"""Calibration with AMX: the processor and its times are stand-ins; in the last test an emulator
executes the instructions of the engine's kernels."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from anyflash import _amx, _attend, _calibration, _lib  # noqa: E402
from test_torch_calibration import AMX, EPYC, PROCESSOR, WAYS, XEON  # noqa: E402
from test_torch_calibration import clock, new_process, torch_computes  # noqa: E402, F401

LEVEL = _amx.CPU_LEVEL


class Check:
    """Stands in for _amx.is_right()."""

    def __init__(self):
        self.answer, self.count = True, 0

    def __call__(self):
        self.count += 1
        return self.answer


@pytest.fixture
def check(clock, monkeypatch):  # noqa: F811
    """A process on a Xeon whose system permits AMX."""
    check = Check()
    monkeypatch.setattr(_calibration, "_ways", lambda facts: list(WAYS))
    monkeypatch.setattr(_amx, "is_right", check)
    return check


def chosen():
    """The Choice in use, without its text, and the text."""
    return anyflash.torch._choice[:3], anyflash.torch.explain()


def test_amx_is_used_where_it_is_fastest(clock, check):  # noqa: F811
    anyflash.torch.enable()
    choice, text = chosen()
    assert choice == (LEVEL, 0, 0) and check.count == 1
    assert (
        "bfloat16 prefill: anyflash with AMX 0.750 ms "
        "(torch 2.000 ms, anyflash 1.000 ms, anyflash up to AVX2 1.500 ms)" in text
    )
    assert "bfloat16 decode: anyflash 1.000 ms (torch" in text
    times = "takes 0.750 ms with it, 1.000 ms without"
    assert f"AMX: used; bfloat16 backward {times}; float16 backward {times}" in text
    assert torch_computes(torch.bfloat16, 17, backward=True) == 0


@pytest.mark.parametrize("problem", _calibration._AMX_PROBLEMS)
@pytest.mark.parametrize("milliseconds", (1.0, 1.1))
def test_amx_is_not_used_where_it_is_slower(clock, check, problem, milliseconds):  # noqa: F811
    clock.times[AMX] = {problem: milliseconds}
    anyflash.torch.enable()
    choice, text = chosen()
    assert choice == (0, 0, 0)
    assert "AMX: not used; bfloat16 backward takes" in text
    assert "bfloat16 prefill: anyflash 1.000 ms (torch 2.000 ms," in text


def test_amx_that_is_slower_than_avx2_is_not_used(clock, check):  # noqa: F811
    clock.times["anyflash up to AVX2"] = dict.fromkeys(_calibration._PROBLEMS, 0.9)
    anyflash.torch.enable()
    choice, text = chosen()
    assert choice == (3, 0, 0)
    assert "AMX: not used" in text and "5.400 ms in total, all kernels 6.000 ms" in text


def test_torch_can_be_faster_than_amx(clock, check):  # noqa: F811
    clock.times["torch"] = {"bfloat16 prefill": 0.7}
    anyflash.torch.enable()
    assert chosen()[0] == (LEVEL, 1 << _lib.BF16, 0)
    assert "bfloat16 prefill: torch 0.700 ms" in anyflash.torch.explain()


def test_amx_with_wrong_results_is_never_used(clock, check, monkeypatch):  # noqa: F811
    check.answer = False
    clock.times["torch"] = {"float16 decode": 0.5}
    for _ in range(2):
        anyflash.torch.enable()
        choice, text = chosen()
        assert choice == (0, 0, 1 << _lib.F16)
        assert "AMX: never used here, because its kernels computed wrong results" in text
        assert "bfloat16 prefill: anyflash 1.000 ms (torch 2.000 ms," in text
        assert "backward" not in text and AMX not in text
        new_process(monkeypatch)
    assert check.count == 1  # that it is wrong is cached
    assert "measured earlier" in text


def test_amx_that_the_system_refuses_is_not_tried(clock, monkeypatch):  # noqa: F811
    monkeypatch.undo()
    monkeypatch.setattr(_amx, "is_available", lambda: False)
    assert AMX not in _calibration._ways(XEON)
    monkeypatch.setattr(_amx, "is_available", lambda: True)
    assert AMX in _calibration._ways(XEON)
    assert AMX not in _calibration._ways(EPYC)


def test_amx_that_is_not_tried_is_explained(clock, monkeypatch):  # noqa: F811
    anyflash.torch.enable()
    choice, text = chosen()
    line = "AMX: not used, because the system or this build of anyflash does not support it"
    assert choice == (0, 0, 0) and line in text
    new_process(monkeypatch)
    facts = {**XEON, "extensions": "avx2 avx512f"}
    monkeypatch.setattr(_calibration, "processor", lambda: dict(facts))
    anyflash.torch.enable()
    assert "AMX" not in anyflash.torch.explain()


def test_times_without_amx_are_measured_again_with_it(clock, monkeypatch):  # noqa: F811
    anyflash.torch.enable()
    reads = clock.reads
    new_process(monkeypatch)
    monkeypatch.setattr(_calibration, "_ways", lambda facts: list(WAYS))
    monkeypatch.setattr(_amx, "is_right", lambda: True)
    anyflash.torch.enable()
    assert clock.reads > 2 * reads and chosen()[0] == (LEVEL, 0, 0)


def broken(good):
    """Times that a file may have, and a calibration with AMX cannot."""
    yield {**good, AMX: None}
    yield {**good, AMX: []}
    yield {**good, AMX: {}}  # then the engine's backward is not measured
    yield {**good, AMX: {**good[AMX], "float32 prefill": 1.0}}
    yield {**good, AMX: {"bfloat16 prefill": 1.0}}
    yield {**good, "anyflash": good["torch"]}


def test_broken_times_are_measured_again(clock, check, monkeypatch, tmp_path):  # noqa: F811
    anyflash.torch.enable()
    path = tmp_path / "anyflash" / "known_answers.json"
    written, reads = json.loads(path.read_text()), clock.reads
    ((key, good),) = written["times"].items()
    for times in broken(good):
        path.write_text(json.dumps({**written, "times": {key: times}}))
        new_process(monkeypatch)
        before = clock.reads
        anyflash.torch.enable()
        assert clock.reads == before + reads and chosen()[0] == (LEVEL, 0, 0), times


def test_it_is_measured_in_both_types(clock, check):  # noqa: F811
    anyflash.torch.enable()
    for dtype in ("bfloat16", "float16"):
        assert {f"{dtype} prefill", f"{dtype} backward"} < set(_calibration._AMX_PROBLEMS)
        assert f"{dtype} prefill: anyflash with AMX 0.750 ms" in anyflash.torch.explain()


def test_right_results_pass_the_check():
    state = torch.get_rng_state()
    with torch.inference_mode():
        assert _amx.is_right()  # without AMX these are the kernels of AVX-512
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("place", range(4))  # out, dq, dk, dv
@pytest.mark.parametrize("wrong", (0.1, float("nan"), float("inf")))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_a_wrong_result_fails_the_check(monkeypatch, place, wrong, dtype):
    kernels = _amx._kernels

    def mistaken(q, k, v, dout, causal):
        results = kernels(q, k, v, dout, causal)
        if causal and q.dtype == dtype:
            results[place][0, -1, -1, -1] += wrong
        return results

    monkeypatch.setattr(_amx, "_kernels", mistaken)
    assert not _amx.is_right()


def test_float16_in_the_precision_of_bfloat16_fails_the_check(monkeypatch):
    kernels = _amx._kernels

    def rounded(*inputs):
        return [x.bfloat16().to(x.dtype) for x in kernels(*inputs)]

    monkeypatch.setattr(_amx, "_kernels", rounded)
    assert not _amx.is_right()


def test_a_causal_mask_that_is_ignored_fails_the_check(monkeypatch):
    kernels = _amx._kernels
    monkeypatch.setattr(_amx, "_kernels", lambda *inputs: kernels(*inputs[:4], False))
    assert not _amx.is_right()


@pytest.mark.skipif(_calibration._has_amx(PROCESSOR()), reason="this processor has AMX")
def test_without_amx_it_is_not_available():
    assert not _amx.is_available()


EMULATED = """
import torch
torch.set_num_threads(2)
import anyflash.torch
from anyflash import _amx, _calibration
_calibration.processor = lambda: {"extensions": "amx_bf16"}
_calibration._KEYS = dict.fromkeys(_calibration._KEYS, 64)
assert _amx.is_available()
anyflash.torch.enable()
print(anyflash.torch.explain())
_calibration._set(*_calibration._WAYS["anyflash with AMX"])
sdpa = torch.nn.functional.scaled_dot_product_attention
for dtype, bound in ((torch.bfloat16, 0.02), (torch.float16, 0.002)):
    inputs = (torch.randn(2, 3, rows, 72).to(dtype) for rows in (70, 131, 131))
    q, k, v = (x.requires_grad_() for x in inputs)
    have = sdpa(q, k, v)
    want = sdpa(q.double(), k.double(), v.double())
    for x in (have, *torch.autograd.grad(have.sum(), (q, k, v))):
        assert x.isfinite().all()
    assert (have - want).abs().max() < bound
"""


def test_calibration_with_emulated_amx(tmp_path):
    """From enable() to the instructions, which are too slow there to be chosen."""
    built = pathlib.Path(_lib._library._name).parent / "tests" / "amx" / "libanyflash.so"
    if not built.exists():
        pytest.skip("needs tests/amx/libanyflash.so of a build with tests")
    if "avx512_bf16" not in PROCESSOR().get("extensions", ""):
        pytest.skip("needs a processor with AVX-512 bf16")
    environment = {
        **os.environ,
        "ANYFLASH_LIBRARY": str(built),
        "PYTHONPATH": str(pathlib.Path(_attend.__file__).parents[1]),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", EMULATED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "AMX: not used; bfloat16 backward takes" in done.stdout
    assert "anyflash with AMX" in done.stdout
