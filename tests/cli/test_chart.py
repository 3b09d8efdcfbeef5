"""bench/chart.py: the JSON of a benchmark as SVG."""
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

CHART = pathlib.Path(__file__).resolve().parents[2] / "bench/chart.py"
MACHINE = {"cpu": "A & <B>", "threads": 2}


def draw(report):
    done = subprocess.run([sys.executable, CHART], input=json.dumps(report), text=True,
                          capture_output=True, timeout=60, check=True)
    assert "nan" not in done.stdout and "inf" not in done.stdout
    return xml.etree.ElementTree.fromstring(done.stdout)


def texts(drawing):
    return [node.text for node in drawing.iter() if node.text]


def case(shape, part, peers=(), operation="forward", level="all"):
    return {"operation": operation, "level": level, "shape": shape, "median_ms": 1.5,
            "roof_part": part, "peers": list(peers)}


def test_a_bar_for_the_engine_and_each_peer_right_of_the_names():
    drawing = draw({
        "schema": "anyflash-bench/1", "machine": MACHINE,
        "peers": [{"name": "torch", "version": "2.15"}, {"name": "x", "version": None}],
        "results": [case("S512", .8, [{"name": "torch", "ratio": 2},
                                      {"name": "x", "decline": "-"}]),
                    case("S1024", 1.2, level="avx2"), case("no roof", 0, operation="call")]})
    bars = [node for node in drawing.iter() if node.tag.endswith("rect") and node.get("x")]
    assert [float(bar.get("width")) for bar in bars] == [400, 200, 530]  # up to the figures
    assert "torch 2.15" in texts(drawing) and "forward, AVX2 level" in texts(drawing)
    assert "no roof" not in texts(drawing) and "80%, 1.5 ms" in texts(drawing)


@pytest.mark.parametrize("declined", [0, 1, 3])
def test_two_panels_with_a_curve_until_it_declines(declined):
    results = [{"length": 512 << i,
                "engine": {"median_ms": .1 * 4 ** i, "peak_bytes": 4e6 * 2 ** i},
                "math": {"median_ms": 9.0 * 4 ** i, "peak_bytes": 9e6 * 4 ** i}}
               for i in range(3)]
    for result in results[3 - declined:]:
        result["math"] = {"decline": "does not fit: 7 GiB"}
    drawing = draw({"device": MACHINE["cpu"], "threads": 2, "torch": "2.15", "dtype": "float32",
                    "heads": 8, "head_dim": 64, "results": results})
    curves = [node for node in drawing.iter() if node.tag.endswith("polyline")]
    assert len(curves) == (2 if declined == 3 else 4)
    assert "2048" in texts(drawing) and texts(drawing).count("anyflash") == 2
    assert texts(drawing).count("textbook (then does not fit)") == (2 if declined == 1 else 0)
