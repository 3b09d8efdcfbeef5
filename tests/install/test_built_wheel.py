"""A wheel that was built without torch is a candidate like published ones: from the cache of
builds, and from a folder that the user names."""
import json
import subprocess

import pytest

from conftest import PROGRAM, PYTHON_TAG, make_wheel, visible
from test_plan import fake_torch

GIVEN = ("--here", "--given", "sm=8.9", "--given", "driver=580.65.06")
BUILT = "any.ptx.hd64.bf16"


@pytest.fixture
def place(quick_place, tmp_path):
    """An environment with a torch that no published wheel is for."""
    fake_torch(quick_place)
    version = quick_place.site / "torch/version.py"
    version.write_text(version.read_text().replace("2.8.0+cu128", "2.7.0a0+nv25.3"))
    catalog = tmp_path / "catalog.jsonl"
    catalog.write_text(json.dumps({
        "source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
        "version": "2.8.3",
        "filename": f"flash_attn-2.8.3+cu12torch2.8-{PYTHON_TAG}-{PYTHON_TAG}-linux_x86_64.whl",
        "url": "https://example.com/a.whl", "cuda": "12", "torch": "2.8",
        "python": PYTHON_TAG, "abi": PYTHON_TAG, "platform": "linux_x86_64", "sm": ["8.0"],
        "evidence": "listed"}) + "\n")
    quick_place.words = ("--catalog", catalog, *GIVEN)
    return quick_place


def built(folder, local=BUILT, **options):
    return make_wheel(folder, version="2.8.3.post2", local=local, metadata_local=True,
                      tag="py3-none-manylinux_2_17_x86_64", requires=("torch",), **options)


def plan(place, *words):
    return json.loads(place.run("plan", *place.words, *words, "--json").stdout)


def test_without_one_the_answer_is_another(place):
    assert plan(place)["decision"] != "wheel"


def test_a_built_wheel_is_planned_installed_known_and_undone(place):
    wheel = built(place.home / ".cache/anyflash/build/0123456789abcdef/wheels")
    before = place.tree()
    answer = plan(place)
    assert answer["decision"] == "wheel"
    assert "a file on this machine" in answer["headline"]
    assert "has only head size 64, bf16" in answer["headline"]
    assert answer["steps"][0]["wheel"]["path"] == str(wheel)
    done = place.run("install", *place.words)
    assert done.returncode == 0, done.all
    assert (place.site / "flash_attn").exists()
    again = place.run("install", *place.words)
    assert again.returncode == 0 and "already installed" in again.stdout, again.all
    assert "cached" not in place.run("doctor").stdout
    assert place.run("undo").returncode == 0
    assert visible(place.tree()) == visible(before)


def test_a_wheel_with_ptx_serves_every_newer_gpu(place):
    wheel = built(place.home / ".cache/anyflash/build/0123456789abcdef/wheels",
                  local="any.ptx")
    for sm in ("8.0", "9.0", "12.1"):
        answer = plan(place, "--arch", sm)
        assert answer["decision"] == "wheel", answer
        assert "complete, as PTX" in answer["headline"]
        assert answer["steps"][0]["wheel"]["path"] == str(wheel)
    assert plan(place, "--arch", "7.5")["decision"] != "wheel"


def test_a_wheel_in_a_named_folder_is_a_candidate(place, tmp_path):
    wheel = built(tmp_path / "folder")
    done = place.run("install", *place.words, "--from", tmp_path / "folder", "--dry-run",
                     "--json")
    assert json.loads(done.stdout)["steps"][0]["wheel"]["path"] == str(wheel)


def test_a_list_of_publishers_does_not_forbid_ones_own(place):
    built(place.home / ".cache/anyflash/build/0123456789abcdef/wheels")
    assert plan(place, "--publishers", "official")["decision"] == "wheel"
    assert plan(place, "--official")["decision"] != "wheel"


def test_another_machine_does_not_have_it(place, tmp_path):
    built(place.home / ".cache/anyflash/build/0123456789abcdef/wheels")
    record = tmp_path / "record.json"
    record.write_text(place.run("machine", *GIVEN).stdout)
    done = subprocess.run([PROGRAM, "plan", "--catalog", place.words[1], "--machine", record,
                           "--json"], capture_output=True, env=place.environment())
    assert json.loads(done.stdout)["decision"] != "wheel"
