"""`anyflash bench`: table, JSON and chart of a few small cases; a peer that is missing."""
import json
import os
import xml.etree.ElementTree
from pathlib import Path

import pytest

TINY = ["--quick", "--filter", "call"]
PROGRAM = Path(os.environ.get("ANYFLASH", "/dev/null"))
#: For shapes that take minutes under sanitizers; tests/kernels runs small ones there.
large = pytest.mark.skipif(b"__asan_init" in PROGRAM.read_bytes(),
                           reason="takes minutes with sanitizers")
PEERS = ("torch", "flex", "onnxruntime", "openvino", "onednn", "openblas")


def test_bench_fits_96_columns_and_names_machine_and_compiler(anyflash):
    answer = anyflash("bench", "--quick", "--filter", "forward S512")
    assert answer.code == 0, answer
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert answer.out.startswith("machine ") and "\nbuilt by " in answer.out
    assert "\n  f32 H16 S512 D64 " in answer.out and "\n  bf16 H16 S512 D64 " in answer.out
    assert answer.err == ""


def test_bench_json_has_every_figure(anyflash):
    answer = anyflash("bench", "--json", "--threads", "1", *TINY)
    report = json.loads(answer.out)
    assert report["schema"] == "anyflash-bench/1" and report["peers"] == []
    machine = report["machine"]
    assert machine["threads"] == 1 and machine["cores"] >= 1
    assert machine["cpu"] and machine["features"] and machine["compiler"]
    shapes = [line["shape"] for line in report["results"]]
    assert shapes == ["f32 H8 Sk128 D64", "f32 H8 Sk1 D64"]
    for line in report["results"]:
        assert line["operation"] == "call" and line["unit"] == "GB/s" and line["samples"] >= 3
        assert 0 < line["minimum_ms"] <= line["median_ms"]
        assert line["rate"] > 0 and line["roof_rate"] > 0 and line["roof_part"] > 0
        assert line["peers"] == [] and 0 <= line["overhead_us"] < line["median_ms"] * 1000
        assert line["kernel"].startswith("af_dec_f32__") and line["level"] == "all"


def test_bench_never_passes_the_roof_of_arithmetic(anyflash):
    answer = anyflash("bench", "--json", "--quick", "--filter", "forward f32 S512")
    line, = json.loads(answer.out)["results"]
    assert line["unit"] == "GFLOP/s" and 0 < line["roof_part"] < 1.1


@large
def test_bench_names_the_kernel_of_each_operation(anyflash):
    answer = anyflash("bench", "--json", "--quick", "--filter", "f32 S2048")
    kernels = {line["operation"]: line["kernel"] for line in json.loads(answer.out)["results"]}
    assert kernels["forward"].startswith("af_fwd_f32__")
    assert kernels["backward"].startswith("af_bwd_f32__")
    tile = kernels["forward"].split("__")[1]
    answer = anyflash("bench", "--quick", "--filter", "forward f32 S2048")
    assert f"  {tile}\n" in answer.out


@large
def test_bench_keeps_to_a_lower_level_beside_its_roof(anyflash):
    answer = anyflash("bench", "--json", "--filter", "forward avx2 D64 causal")
    if answer.code == 2:
        pytest.skip("needs a processor with AVX2")
    line, = json.loads(answer.out)["results"]
    assert line["level"] == "avx2" and "__avx2_" in line["kernel"]
    assert 0 < line["roof_part"] < 1.1


@large
def test_bench_shows_what_a_long_forward_takes_beyond_its_tensors(anyflash):
    answer = anyflash("bench", "--json", "--filter", "memory bf16")
    report = json.loads(answer.out)
    line, = report["memory"]
    assert report["results"] == [] and line["shape"] == "bf16 H2 S16384 D128"
    assert 0 < line["scratch_bytes_per_thread"] < 4 << 20
    assert line["peak_bytes_per_thread"] is None or line["peak_bytes_per_thread"] < 4 << 20


def test_bench_filter_takes_whole_words(anyflash):
    answer = anyflash("bench", "--filter", "S51")
    assert answer.code == 2 and "no shape matches --filter" in answer.err


def test_bench_writes_a_chart(anyflash, tmp_path):
    answer = anyflash("bench", "--quick", "--filter", "forward f32 S512", "--chart", "c.svg")
    assert answer.code == 0
    root = xml.etree.ElementTree.parse(tmp_path / "c.svg").getroot()
    assert root.tag.endswith("svg")
    assert any("f32 H16 S512 D64" in (node.text or "") for node in root.iter())


def test_bench_says_which_peers_are_not_there(anyflash):
    answer = anyflash("bench", "--peers", "/usr/bin/python3", *TINY)
    assert answer.code == 0
    for peer in PEERS:
        assert f" {peer} not installed" in answer.out
    assert "best" not in answer.out


def test_bench_refuses_an_interpreter_that_does_not_run(anyflash):
    answer = anyflash("bench", "--peers", "no-such-python", *TINY)
    assert answer.code == 3 and "no-such-python" in answer.err


def fake_python(tmp_path, answer):
    """A stand-in interpreter that prints `answer` for every peer."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\nif [ \"$4\" = '{{}}' ]; then echo '{{\"version\": \"1.0\"}}'\n"
                    f"else {answer}\nfi\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("answer, decline", [
    ("kill -9 $$", "signal 9"),
    ("exit 7", "exit code 7"),
    ("echo '{'", "expected near end"),
    ("echo '{}'", "cannot be read"),
    ("echo '{\"results\": [[1, 2]], \"milliseconds\": [1]}'", "cannot be read"),
    ("echo '{\"decline\": \"has no \\u001b[31mbackward\"}'", r"has no \x1B[31mbackward"),
])
def test_bench_outlives_a_peer_that_fails(anyflash, tmp_path, answer, decline):
    python = fake_python(tmp_path, answer)
    report = json.loads(anyflash("bench", "--json", "--peers", python, *TINY).out)
    assert [peer["version"] for peer in report["peers"]] == ["1.0"] * len(PEERS)
    for line in report["results"]:
        for peer in line["peers"]:
            assert decline.lower() in peer["decline"].lower()


def test_bench_says_that_results_differ(anyflash, tmp_path):
    numbers = json.dumps([[1000] * 256])
    python = fake_python(tmp_path, f"echo '{{\"results\": {numbers}, \"dtype\": \"f32\", "
                                   "\"milliseconds\": [1, 2, 3]}'")
    answer = anyflash("bench", "--peers", python, *TINY)
    assert answer.code == 0 and "differs" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert not any(line.endswith(" ") for line in answer.out.splitlines())


def test_bench_shows_the_best_of_the_peers(anyflash, tmp_path):
    python = fake_python(tmp_path, "echo '{\"decline\": \"has no such case\"}'")
    answer = anyflash("bench", "--peers", python, *TINY)
    heading = [line for line in answer.out.splitlines() if line.endswith(" best")]
    assert len(heading) == 1 and heading[0].split()[1:-1] == list(PEERS)
    assert answer.out.count("        -\n") == 2


def test_bench_takes_no_file_of_the_folder_for_a_library(anyflash, tmp_path):
    (tmp_path / "numpy.py").write_text("__version__ = '0'\nraise SystemExit(5)\n")
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")
    answer = anyflash("bench", "--peers", "/usr/bin/python3", *TINY)
    assert " torch not installed" in answer.out
