"""bench/textbook.py on the CPU, with short sequences."""

import importlib.util
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.attention")
from anyflash import providers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["math"] + [name for name in providers.names_of("cpu") if name != "plain"]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("textbook", ROOT / "bench" / "textbook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TURNS", 2)
    monkeypatch.setattr(module.resource, "setrlimit", lambda *_: None)
    yield module
    providers.force(None)


def test_each_length_is_a_row_with_a_column_for_each_provider(bench, capsys):
    bench.main(["--lengths", "32", "64"])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in head and "train False" in head
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows[0] == ["N", *[x for name in NAMES for x in (f"{name}, ms", "MiB")], "ratio"]
    assert [row[0] for row in rows[2:]] == ["32", "64"]
    for row in rows[2:]:
        assert len(row) == len(rows[0]) and all(float(cell) >= 0 for cell in row)


def test_training_as_json(bench, capsys):
    bench.main(["--lengths", "64", "--train", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["train"] is True and report["dtype"] == "float32" and report["heads"] == 8
    line, = report["results"]
    assert list(line) == ["length", *NAMES]
    for name in NAMES:
        assert line[name]["median_ms"] > 0 and line[name]["samples"] >= 1
        assert line[name]["peak_bytes"] >= 7 * 64 * 8 * 64 * 4  # q, k, v, the gradients, dout


def test_what_does_not_fit_is_declined_and_so_is_what_is_longer(bench, capsys, monkeypatch):
    path, seen = bench.math_path, []

    def full(q, k, v):
        seen.append(q.shape[1])
        if q.shape[1] == 128:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return path(q, k, v)

    monkeypatch.setattr(bench, "math_path", full)
    bench.main(["--lengths", "128", "256", "--json"])
    for line in json.loads(capsys.readouterr().out)["results"]:
        assert line["math"] == {"decline": "does not fit"} and line["engine"]["samples"] >= 1
    assert 256 not in seen


def test_a_lack_of_memory_is_told_from_other_errors(bench):
    for error in (torch.cuda.OutOfMemoryError("CUDA out of memory."), MemoryError()):
        assert bench.reason_of(error) == "does not fit"
    assert bench.reason_of(RuntimeError("no kernel\nmore")) == "no kernel"


def test_it_ends_when_the_time_is_used_up(bench, capsys):
    bench.main(["--lengths", "64", "128", "--seconds", "0", "--json"])
    assert all(line[name] == {"decline": "not run: the time is used up"}
               for line in json.loads(capsys.readouterr().out)["results"] for name in NAMES)


def test_without_a_gpu_it_says_what_to_try(bench, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="torch finds no GPU"):
        bench.main(["--device", "cuda"])
