"""`anyflash bench`: table, JSON and chart of a few small cases; a peer that is not there."""
import json
import xml.etree.ElementTree

import pytest

TINY = ["--quick", "--filter", "call"]


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
        assert line["peers"] == []


def test_bench_never_passes_the_roof_of_arithmetic(anyflash):
    answer = anyflash("bench", "--json", "--quick", "--filter", "forward f32 S512")
    line, = json.loads(answer.out)["results"]
    assert line["unit"] == "GFLOP/s" and 0 < line["roof_part"] < 1.1


def test_bench_filter_takes_whole_words(anyflash):
    answer = anyflash("bench", "--filter", "S51")
    assert answer.code == 2 and "no case has all words" in answer.err


def test_bench_writes_a_chart(anyflash, tmp_path):
    answer = anyflash("bench", "--quick", "--filter", "forward f32 S512", "--svg", "c.svg")
    assert answer.code == 0
    root = xml.etree.ElementTree.parse(tmp_path / "c.svg").getroot()
    assert root.tag.endswith("svg")
    assert any("f32 H16 S512 D64" in (node.text or "") for node in root.iter())


def test_bench_says_which_peers_are_not_there(anyflash):
    answer = anyflash("bench", "--peers", "/usr/bin/python3", *TINY)
    assert answer.code == 0
    for peer in ("torch", "onnxruntime", "openvino"):
        assert peer in answer.out


def test_bench_refuses_an_interpreter_that_does_not_run(anyflash):
    answer = anyflash("bench", "--peers", "no-such-python", *TINY)
    assert answer.code == 3 and "no-such-python" in answer.err


def fake_python(tmp_path, answer):
    """A program that answers every question of the peers with `answer`."""
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
    assert [peer["version"] for peer in report["peers"]] == ["1.0"] * 3
    for line in report["results"]:
        for peer in line["peers"]:
            assert decline.lower() in peer["decline"].lower()


def test_bench_says_that_results_differ(anyflash, tmp_path):
    numbers = json.dumps([[1000] * 256])
    python = fake_python(tmp_path, f"echo '{{\"results\": {numbers}, \"dtype\": \"f32\", "
                                   "\"milliseconds\": [1, 2, 3]}'")
    answer = anyflash("bench", "--peers", python, *TINY)
    assert answer.code == 0 and "differs" in answer.out
