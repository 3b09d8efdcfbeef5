"""bench/gpu_providers.py, all of it, on the CPU: a machine with a GPU is rare, and time on it
is short, so that the command has to work before one is there."""

import importlib.util
import pathlib
import re
import sys
import types

import pytest

torch = pytest.importorskip("torch")
import standins  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import aten  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = list(providers.names_of("cpu"))

#: A test file with the layout of flash-attn's own.
TESTS = '''
import pytest
import torch
from flash_attn import flash_attn_func
ON = torch.cuda.get_device_capability("cuda")
@pytest.mark.parametrize("softcap", [0.0, 5.0])
@pytest.mark.parametrize("seqlen_q,seqlen_k", [(3, 5), (9, 7), (16, 32), (1, 8)])
def test_flash_attn_output(seqlen_q, seqlen_k, softcap):
    if (seqlen_q, seqlen_k) == (1, 8):
        pytest.skip()
    q, k = (torch.ones(1, rows, 2, 16, device="cuda") for rows in (seqlen_q, seqlen_k))
    far = flash_attn_func(q, k, k, softcap=softcap).sum() - WANTED
    assert ON == (8, 0) and abs(far) < 1e-3
'''


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """run(*words): (exit code, sections of its output, what it said on stderr); run.module."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("bench", ROOT / "bench" / "gpu_providers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SECONDS", 0.0)
    monkeypatch.setattr(module, "LEAST", 2)
    monkeypatch.setattr(module, "TURN", 0.0)
    (tmp_path / "tests").mkdir()
    yield module
    providers.force(None)


def run(bench, capsys, *words):
    """(exit code, {title: lines} of the output, stderr)."""
    code = bench.main(["--device", "cpu", *map(str, words)])
    out, err = capsys.readouterr()
    parts = re.split(r"^#+ (.*)\n", out, flags=re.M)
    return code, dict(zip(parts[1::2], (part.splitlines() for part in parts[2::2]))), err


def checkout(tmp_path, wanted):
    (tmp_path / "tests" / "test_flash_attn.py").write_text(TESTS.replace("WANTED", wanted))
    return tmp_path


def rows(lines):
    """{first cell: other cells} of the table in these lines."""
    found = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in lines if line.startswith("|")]
    assert found.pop(1) == ["---"] * len(found[0]) and len({len(row) for row in found}) == 1
    return {row[0]: row[1:] for row in found}


def test_every_part_of_it_runs_by_one_command(bench, capsys, tmp_path):
    own = checkout(tmp_path, "seqlen_q * 32")
    code, parts, err = run(bench, capsys, "--keys", 32, 64, "--tests", own, "--sets", 6)
    assert code == 0 and not err
    titles = list(parts)
    assert titles[0].startswith("Providers on ") and len(titles[0]) > 13
    assert titles[1:] == ["Which work here", "Answers", "flash-attn's own tests", "Times"]
    assert f"torch      {torch.__version__};" in "\n".join(parts[titles[0]])

    works = rows(parts["Which work here"])
    assert [row[0] for row in works.values()] == ["works", "yes", "yes", "yes"]

    answers = rows(parts["Answers"])
    assert answers.pop("case") == NAMES
    assert list(answers) == [row[0] for row in bench.CHECKS]
    assert answers["softcap"][1] == "-" and float(answers["pages"][0]) < 0.02
    assert "- `sdpa` has no softcap: softcap" in parts["Answers"]

    tests = rows(parts["flash-attn's own tests"])
    assert tests["all"] == ["6", "0", "0", "0"] == tests["`engine`"]
    assert tests["`sdpa`"] == ["3", "0", "0", "3"]

    times = rows(parts["Times"])
    assert times.pop("case") == ["SDPA", *NAMES]
    assert list(times) == [
        f"{what}, {keys} keys" for keys in (32, 64) for what, _, _ in bench.TIMES
    ]
    for row in times.values():
        found = [re.fullmatch(r"(\*\*)?(\d+\.\d{3}) ±\d+ %(\*\*)?", cell) for cell in row]
        values = [float(cell[2]) for cell in found]
        assert min(values) in [v for v, cell in zip(values, found) if cell[1]] and all(values)


def test_a_wrong_answer_or_a_failed_test_is_named_and_the_exit_code_is_1(
    bench, capsys, monkeypatch, tmp_path
):
    monkeypatch.setitem(bench.BOUND, torch.float32, 0.0)
    code, parts, err = run(bench, capsys, "--only", "answers")
    assert code == 1 and "Times" not in parts
    assert "wrong: engine, f32, causal: off by " in err
    assert rows(parts["Answers"])["f32, causal"][0].endswith(" WRONG")

    monkeypatch.setattr(bench, "works", lambda device: ["engine"])
    own = checkout(tmp_path, "7")
    code, parts, err = run(bench, capsys, "--only", "tests", "--tests", own, "--sets", 2)
    assert code == 1 and rows(parts["flash-attn's own tests"])["all"][2] == "2"
    assert "wrong: flash-attn's tests with engine:\nfailed: test_flash_attn_output" in err

    (own / "tests" / "test_flash_attn.py").write_text("import nothing_of_this_name")
    code, parts, err = run(bench, capsys, "--only", "tests", "--tests", own)
    assert code == 1 and "No module named 'nothing_of_this_name'" in err


def test_times_are_taken_by_turns_with_each_provider_forced(bench, monkeypatch):
    order = []
    monkeypatch.setattr(bench, "LEAST", 3)
    calls = {
        name: lambda name=name: order.append((name, providers._forced))
        for name in ("SDPA", "engine", "plain")
    }
    took = bench.by_turns(calls, lambda: None)
    turn = [("SDPA", None), ("engine", "engine"), ("plain", "plain")]
    assert [len(found) for found in took.values()] == [3, 3, 3]
    assert order == [x for x in turn for _ in "12"] + 2 * turn  # at first one to know how long


@pytest.mark.parametrize("rocm", (None, "7.0"))
def test_the_providers_of_a_gpu_get_their_columns(bench, capsys, monkeypatch, rocm):
    """With stand-ins for torch's kernels, and CPU tensors for those of the GPU."""
    of_cuda = {**providers._OF_DEVICE, "cpu": providers.names_of("cuda")}
    monkeypatch.setattr(providers, "_OF_DEVICE", of_cuda)
    with standins.torchs_kernels(monkeypatch, (9, 0), None, rocm):
        code, parts, err = run(bench, capsys, "--only", "answers", "times", "--keys", 16)
    assert code == 0 and not err
    cudnn = rocm is None and aten.missing("cudnn") is None
    names = ["torch_cudnn"] * cudnn + ["torch_flash", "torch_efficient", "sdpa", "plain"]
    answers, times = rows(parts["Answers"]), rows(parts["Times"])
    assert answers["case"] == names and times["case"] == ["SDPA", *names]
    flash = names.index("torch_flash")
    assert all(answers[case][flash + 1] != "-" for case in answers if case != "softcap")
    for case in ("bf16", "more queries than keys", "D 60", "packed", "cache", "pages"):
        assert float(answers[case][flash]) < 0.02
    assert (answers["ALiBi"][flash], times["decode, 16 keys"].count("-")) == ("-", cudnn)
    if cudnn:
        assert "- `torch_cudnn` has no cache: decode, 16 keys" in parts["Times"]


def test_a_gpu_is_named(bench, monkeypatch):
    facts = types.SimpleNamespace(
        name="NVIDIA H100", major=9, minor=0, gcnArchName="gfx942", total_memory=80 << 30
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    first = [f"GPU        NVIDIA H100 ({kind}), 80 GiB" for kind in ("9.0", "gfx942")]
    assert next(bench.machine(torch.device("cuda"))) == first[0]
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert next(bench.machine(torch.device("cuda"))) == first[1]


def test_without_a_gpu_it_says_what_to_try(bench, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="error: torch finds no GPU\nhint: --device cpu"):
        bench.main([])


def test_what_cannot_be_computed_leaves_its_reason(bench, capsys, monkeypatch):
    def full(*arguments, **options):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 64 GiB")

    monkeypatch.setattr(bench.anyflash, "flash_attn_func", full)
    code, parts, _ = run(bench, capsys, "--only", "times", "--keys", 16)
    assert code == 0
    assert rows(parts["Times"])["backward, 16 keys"][1:] == ["-"] * 3
    assert "- `engine` needs more memory: forward, 16 keys; forward, GQA, 16 keys; " \
        "backward, 16 keys" in parts["Times"]
