"""Calibration: a processor and its times are stand-ins; torch and the engine are real,
and in one test the times, too."""

import json

import pytest

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from anyflash import _calibration, _lib, _result_cache, _torch_ops  # noqa: E402
import torch_support  # noqa: E402, F401: one thread, which other programs disturb less

sdpa = torch.nn.functional.scaled_dot_product_attention
TORCH_FEW = 1 << _lib.F32
IS_MEASURED, MILLISECONDS = _calibration.is_measured, _calibration._milliseconds
WAYS, PROCESSOR = _calibration._WAYS, _calibration.processor
USUAL = {"torch": 2.0, "anyflash": 1.0, "anyflash up to AVX2": 1.5}  # ms
XEON = {
    "vendor_id": "GenuineIntel",
    "cpu family": "6",
    "model": "143",
    "extensions": "amx_bf16 amx_int8 amx_tile avx2 avx512_bf16 avx512f",
}
EPYC = {"vendor_id": "AuthenticAMD", "cpu family": "26", "extensions": "avx2 avx512_bf16"}


class Clock:
    """Stands in for _milliseconds(): a time for each way and problem. Counts its calls."""

    def __init__(self):
        self.reads = 0
        self.times = {way: {} for way in WAYS}
        self.noise = lambda reads: 1.0

    def __call__(self, way, problem, call):
        self.reads += 1
        return self.times[way].get(problem, USUAL[way]) * self.noise(self.reads)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """A process on a Xeon that has not calibrated yet."""
    clock = Clock()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_calibration, "is_measured", IS_MEASURED)
    monkeypatch.setattr(_calibration, "processor", lambda: dict(XEON))
    monkeypatch.setattr(_calibration, "_ways", lambda: list(WAYS))
    monkeypatch.setattr(_calibration, "_milliseconds", clock)
    monkeypatch.setattr(anyflash.torch, "_choices", {})
    yield clock
    anyflash.torch.disable()
    _calibration.UNMEASURED.apply()


def new_process(monkeypatch):
    anyflash.torch.disable()
    monkeypatch.setattr(anyflash.torch, "_choices", {})


def torch_computes(dtype, rows, backward=False, keys=129):
    """How many of the calls, a forward or a forward and its backward, torch computed."""
    x = torch.randn(1, 2, keys, 64, dtype=dtype, requires_grad=backward)
    before = anyflash.torch.counts()[1]
    out = sdpa(x[:, :, :rows], x, x)
    if backward:
        out.sum().backward()
    return anyflash.torch.counts()[1] - before


def test_the_engine_computes_what_it_is_faster_in(clock):
    anyflash.torch.enable()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch_computes(dtype, 64, backward=True) == torch_computes(dtype, 1) == 0
    line = "anyflash 1.000 ms (torch 2.000 ms, anyflash up to AVX2 1.500 ms)"
    text = anyflash.torch.explain()
    assert f"bfloat16 prefill: {line}" in text and f"bfloat16 decode: {line}" in text
    assert "in total" not in text


def test_calls_of_a_calibration_are_not_counted(clock, monkeypatch):
    choose = _calibration.choose

    def call_and_choose(threads):
        x = torch.randn(1, 2, 17, 64)
        sdpa(x, x, x)
        return choose(threads)

    monkeypatch.setattr(_calibration, "choose", call_and_choose)
    new_process(monkeypatch)
    before = anyflash.torch.counts()
    anyflash.torch.enable()
    assert anyflash.torch.counts() == before


def test_torch_keeps_the_prefill_of_a_type_in_which_it_is_faster(clock):
    clock.times["torch"] = {"bfloat16 prefill": 0.9}
    anyflash.torch.enable()
    assert torch_computes(torch.bfloat16, 17) == 1
    assert torch_computes(torch.bfloat16, 17, backward=True) == 2
    assert torch_computes(torch.bfloat16, 16, backward=True) == 0
    assert torch_computes(torch.float16, 17) == torch_computes(torch.float32, 17) == 0
    assert "bfloat16 prefill: torch 0.900 ms (anyflash 1.000 ms," in anyflash.torch.explain()


def test_torch_keeps_the_decode_of_a_type_in_which_it_is_faster(clock):
    clock.times["torch"] = {"float32 decode": 0.9}
    anyflash.torch.enable()
    assert torch_computes(torch.float32, 1) == torch_computes(torch.float32, 16) == 1
    assert torch_computes(torch.float32, 16, backward=True) == 2
    assert torch_computes(torch.float32, 17, backward=True) == 0
    assert torch_computes(torch.bfloat16, 1) == torch_computes(torch.float16, 1) == 0
    assert "float32 decode: torch 0.900 ms (anyflash 1.000 ms," in anyflash.torch.explain()


def test_torch_keeps_the_short_calls_of_a_type_in_which_it_is_faster(clock):
    clock.times["torch"] = {"float32 short": 0.9}
    anyflash.torch.enable()
    for rows, keys, kept in ((1, 1, 1), (1, 128, 1), (16, 128, 1), (16, 129, 0), (17, 128, 0)):
        assert torch_computes(torch.float32, rows, keys=keys) == kept
        assert torch_computes(torch.bfloat16, rows, keys=keys) == 0
    assert torch_computes(torch.float32, 8, backward=True, keys=64) == 2
    assert "float32 short: torch 0.900 ms (anyflash 1.000 ms," in anyflash.torch.explain()


@pytest.mark.parametrize("measured", (False, True))
def test_torch_keeps_the_backward_of_few_queries_in_float32(clock, monkeypatch, measured):
    monkeypatch.setattr(_calibration, "_TORCH_FEW", TORCH_FEW)
    monkeypatch.setattr(_calibration, "is_measured", lambda facts, version: measured)
    anyflash.torch.enable()
    for rows in (1, 32, 33):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            kept = dtype == torch.float32 and rows <= 32
            assert torch_computes(dtype, rows, backward=True) == kept, (rows, dtype)
            assert torch_computes(dtype, rows) == 0
    assert "backward of float32 with up to 32 queries" in anyflash.torch.explain()


def test_heads_that_share_keys_follow_the_same_decision(clock):
    clock.times["torch"] = {"float32 decode": 0.9}
    anyflash.torch.enable()
    for rows, kept in ((1, 1), (17, 0)):
        q, k = torch.randn(1, 4, rows, 64), torch.randn(1, 2, 140, 64)
        before = anyflash.torch.counts()[1]
        try:
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)
        except RuntimeError:  # an older torch, which computes no such call itself
            assert kept
        assert anyflash.torch.counts()[1] - before == kept


def test_a_tie_is_torchs(clock):
    clock.times["torch"] = {"float16 prefill": 1.0, "float16 decode": 1.0}
    anyflash.torch.enable()
    assert torch_computes(torch.float16, 17) == torch_computes(torch.float16, 16) == 1


def test_avx512_is_not_used_where_avx2_is_faster(clock):
    faster = [f"{dtype} {kind}" for dtype in ("float32", "bfloat16")
              for kind in ("prefill", "decode", "short")]
    clock.times["anyflash up to AVX2"] = dict.fromkeys(faster, 0.5)
    anyflash.torch.enable()
    packed = _lib._large_problem()
    text = _lib.ctypes.create_string_buffer(4096)
    _lib._FORMAT.pack_into(_lib._local.forward, 0, *packed)
    context = _torch_ops._threads.get()
    address, size = _lib._local.forward_address, _lib.ctypes.c_size_t(len(text))
    assert _lib._library.anyflash_explain(context, address, text, size, None) == 0
    rows = [row for row in text.value.decode().splitlines() if ": not " not in row]
    assert "many rows" in rows[0] and "avx512" not in rows[0]
    total = "anyflash up to AVX2: 7.500 ms in total, all kernels 9.000 ms"
    assert total in anyflash.torch.explain()
    line = "float32 decode: anyflash up to AVX2 0.500 ms (torch 2.000 ms, anyflash 1.000 ms)"
    assert line in anyflash.torch.explain()


@pytest.mark.parametrize("name, count", (("avx2", 2), ("avx512bf16", 3), ("amx", 3)))
def test_avx2_is_tried_where_the_engine_has_something_wider(monkeypatch, name, count):
    text = f"many rows: not af_fwd_bf16__avx512: no\nmany rows: af_fwd_bf16__{name}_q48k8\n"
    monkeypatch.setattr(_lib, "explain_kernel", lambda _threads_of: text)
    assert len(_calibration._ways()) == count


def test_times_are_kept_for_later_processes_with_as_many_threads(clock, monkeypatch):
    clock.times["torch"] = {"bfloat16 prefill": 0.9}
    anyflash.torch.enable()
    reads = clock.reads
    assert reads > 0 and "measured in this process: " in anyflash.torch.explain()
    new_process(monkeypatch)
    anyflash.torch.enable()
    assert clock.reads == reads and torch_computes(torch.bfloat16, 17) == 1
    assert "measured earlier: " in anyflash.torch.explain()
    new_process(monkeypatch)
    threads = torch.get_num_threads()
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads + 1)
    anyflash.torch.enable()
    assert clock.reads == 2 * reads


def test_a_single_disturbance_does_not_matter(clock, monkeypatch):
    clock.noise = lambda reads: 50.0 if reads % 60 < 9 else 1.0
    anyflash.torch.enable()
    assert "bfloat16 prefill: anyflash 1.000 ms (torch 2.000 ms," in anyflash.torch.explain()
    assert "measured in this process: " in anyflash.torch.explain()


def test_times_that_never_settle_are_not_kept(clock, monkeypatch):
    clock.noise = lambda reads: 1.2**reads
    anyflash.torch.enable()
    reads = clock.reads
    assert "not kept, because the times varied too much" in anyflash.torch.explain()
    new_process(monkeypatch)
    anyflash.torch.enable()
    assert clock.reads > reads


def test_one_process_measures_once(clock, monkeypatch):
    monkeypatch.setattr(_result_cache, "get_times", lambda facts: None)
    for _ in range(2):
        with anyflash.torch.enabled():
            reads = clock.reads
    anyflash.torch.enable()
    assert clock.reads == reads > 0


@pytest.mark.parametrize("key", ("model", "extensions", "torch", "anyflash"))
def test_times_of_another_processor_or_version_are_not_used(clock, monkeypatch, key):
    anyflash.torch.enable()
    reads = clock.reads
    new_process(monkeypatch)
    if key == "torch":
        monkeypatch.setattr(torch, "__version__", "2.99.0")
    elif key == "anyflash":
        monkeypatch.setattr(_calibration, "__version__", "9.9")
    else:
        monkeypatch.setattr(_calibration, "processor", lambda: {**XEON, key: "other"})
    anyflash.torch.enable()
    assert clock.reads == 2 * reads


def broken(good):
    """Times as a file may have them."""
    ways = list(good)
    yield from (None, 3, [], {}, "1.0", {**good, "other": good[ways[0]]})
    yield {way: good[way] for way in ways[1:]}
    for row in (None, [1.0], {}, {**good["torch"], "float64": 1.0}):
        yield {**good, "torch": row}
    for value in (None, "1.0", True, 1, 0.0, -1.0, float("nan"), float("inf"), [1.0]):
        yield {**good, "torch": {**good["torch"], "bfloat16 decode": value}}
    # From versions that measured less.
    dtypes = "float32", "bfloat16", "float16"
    yield {way: dict.fromkeys(dtypes, 1.0) for way in ("torch", "engine", "engine, AVX2")}
    for kinds in (["prefill"], ["prefill", "decode"]):
        problems = [f"{dtype} {kind}" for dtype in dtypes for kind in kinds]
        yield {way: dict.fromkeys(problems, 1.0) for way in good}


def test_times_that_a_file_cannot_have_from_here_are_measured_again(
    clock, monkeypatch, tmp_path
):
    anyflash.torch.enable()
    path = tmp_path / "anyflash" / "known_answers.json"
    written = json.loads(path.read_text())
    (key, good), reads = next(iter(written["times"].items())), clock.reads
    for times in broken(good):
        path.write_text(json.dumps({**written, "times": {key: times}}))
        new_process(monkeypatch)
        before = clock.reads
        anyflash.torch.enable()
        assert clock.reads == before + reads, times
        assert torch_computes(torch.bfloat16, 17) == 0


def test_a_cache_that_cannot_be_written_is_no_error(clock, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    clock.times["torch"] = {"bfloat16 prefill": 0.9}
    anyflash.torch.enable()
    assert torch_computes(torch.bfloat16, 17) == 1


def test_without_calibration_the_engine_computes(clock):
    clock.times["torch"] = {"bfloat16 prefill": 0.9}
    with anyflash.torch.enabled(calibrate=False):
        assert torch_computes(torch.bfloat16, 17) == 0
        assert "not calibrated" in anyflash.torch.explain()
    anyflash.torch.enable(calibrate=False)
    assert torch_computes(torch.bfloat16, 17) == 0 == clock.reads


def test_while_enabled_nothing_is_decided_again(clock):
    clock.times["torch"] = {"bfloat16 prefill": 0.9}
    anyflash.torch.enable()
    with anyflash.torch.enabled(calibrate=False):
        assert torch_computes(torch.bfloat16, 17) == 1


def test_a_processor_of_the_benchmarks_is_not_calibrated(clock, monkeypatch):
    monkeypatch.setattr(_calibration, "processor", lambda: dict(EPYC))
    monkeypatch.setattr(torch, "__version__", "2.15.1+cpu")
    anyflash.torch.enable()
    assert clock.reads == 0 == torch_computes(torch.bfloat16, 17)
    assert "not calibrated on the kind of" in anyflash.torch.explain()


@pytest.mark.parametrize(
    "facts, version",
    (
        (XEON, "2.15.0"),
        (EPYC, "2.16.0"),
        ({**EPYC, "extensions": "avx2"}, "2.15.0"),
        ({**EPYC, "cpu family": "25"}, "2.15.0"),
        ({"extensions": ""}, "2.15.0"),
        ({"name": "arm", "machine": "arm64"}, "2.15.0"),
    ),
)
def test_any_other_is(facts, version):
    assert not IS_MEASURED(facts, version)


def test_if_measuring_fails_torch_keeps_the_prefill(clock, monkeypatch):
    def fail(way, problem, call):
        raise RuntimeError("no clock")

    monkeypatch.setattr(_calibration, "_milliseconds", fail)
    anyflash.torch.enable()
    assert torch_computes(torch.float32, 17) == 1
    assert torch_computes(torch.float32, 16) == 0
    assert "anyflash could not be measured (no clock)" in anyflash.torch.explain()


def test_disabled_says_so(clock):
    assert anyflash.torch.explain() == "torch computes all calls: anyflash is not enabled"


def test_real_times_leave_no_trace(clock, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(_calibration, "is_measured", lambda facts, version: False)
    monkeypatch.setattr(_calibration._result_cache, "get_times", lambda facts: None)
    monkeypatch.setattr(_calibration._result_cache, "put_times", lambda facts, times: None)
    monkeypatch.setattr(anyflash.torch, "_choices", {})
    state = torch.get_rng_state()
    anyflash.torch.enable()
    assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled()
    assert len(anyflash.torch.explain().splitlines()) in (13, 14)
    new_process(monkeypatch)


def test_an_engine_that_really_is_slower_loses_the_prefill(clock, monkeypatch):
    monkeypatch.setattr(_calibration, "_milliseconds", MILLISECONDS)
    base = 1  # enum anyflash_cpu_level: plain C
    monkeypatch.setattr(_calibration, "_WAYS", {**WAYS, "anyflash": (base, 0, 0, 0)})
    monkeypatch.setattr(_calibration, "_ways", lambda: ["torch", "anyflash"])
    anyflash.torch.enable()
    assert torch_computes(torch.float32, 17) == torch_computes(torch.bfloat16, 17) == 1


CPUINFO = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\nflags\t\t: fpu avx2 amx_tile\n"
)


def test_the_processor_is_read_from_linux(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO + "\nprocessor\t: 1\nmodel\t\t: 7\n")
    intel = {"vendor_id": "GenuineIntel", "model": "143", "extensions": "amx_tile avx2"}
    assert _calibration.processor(path) == intel
    path.write_text("processor\t: 0\nFeatures\t: fp asimd bf16\nCPU part\t: 0xd40\n")
    assert _calibration.processor(path) == {"CPU part": "0xd40", "extensions": "asimd bf16"}
    path.write_bytes(b"\xff\x00:\n:::" * 9000)
    assert _calibration.processor(path) == {"extensions": ""}
    assert set(_calibration.processor(tmp_path / "none")) == {"name", "machine"}
