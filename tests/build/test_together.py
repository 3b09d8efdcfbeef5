"""Builds that share a cache; environment variables, folders and options."""

import shutil

import pytest

import synthetic
from bad_world import SELECTION, World

OTHER = (*SELECTION[:5], "alibi", *SELECTION[6:])  # another cache folder, the same toolkit
INDEX = ("--toolkit", "index")
UV = """\
#!/bin/sh
echo "$2" >>{calls}
while [ "$1" != --target ]; do shift; done
sleep 1
mkdir -p "$2/nvidia" && cp -a {cuda} "$2/nvidia/cu13"
"""
NO_NETWORK = """\
#!/bin/sh
echo "error: Request failed after 3 retries in 10.9s" >&2
echo "  cause: Failed to fetch: https://index.invalid/simple/cuda-toolkit/" >&2
echo "  cause: client error (Connect)" >&2
echo "  cause: failed to lookup address information" >&2
echo "hint: nobody needs this" >&2
exit 2
"""


@pytest.fixture(name="world")
def make_world(tmp_path):
    return World(tmp_path)


def with_uv(world, text):
    """Replaces uv by this script, which "downloads" the toolkit; its log of calls."""
    calls = world.folder / "calls"
    calls.write_text("")
    world.replace("uv", text.format(calls=calls, cuda=world.cuda))
    return calls


def test_two_builds_at_once_get_their_common_toolkit_once_and_say_so(world):
    calls = with_uv(world, UV)
    errors = []
    for process in [world.start(*options, *INDEX) for options in (SELECTION, OTHER)]:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
        errors.append(err)
    assert calls.read_text().split() == ["install"]
    assert any("waiting for another build that is using" in text for text in errors), errors
    cleaned = world.run("--clean")
    assert "CUDA 13.0.2 from the package index" in cleaned.out, cleaned


def test_without_network_the_failure_names_the_address_and_what_to_do(world):
    with_uv(world, NO_NETWORK)
    said = world.run(*SELECTION, *INDEX, offline=False)
    assert said.code == 3 and said.compiled == [], said
    assert "UV_DEFAULT_INDEX=URL" in said.err and "nobody needs this" not in said.err, said
    assert "Failed to fetch: https://index.invalid/simple/cuda-toolkit/" in said.err, said
    assert "failed to lookup address information" in said.err, said


def test_the_same_build_twice_at_once_is_refused(world):
    world.compiler("sleep 2")
    first = world.start(*SELECTION)
    try:
        while not list(world.folder.glob("cache/build/*/objects/*.out")):
            assert first.poll() is None
        said = world.run()
        assert said.code == 3 and "another build is running in" in said.err, said
    finally:
        first.kill()
        first.communicate(timeout=60)


@pytest.mark.parametrize("name", ["with blank", "a:b", "o'brien", "cash$"])
def test_a_cache_in_which_nvcc_cannot_compile_is_refused(world, name):
    cache = world.folder / name
    shutil.copytree(world.folder / "cache", cache, symlinks=True)
    for options in (("--check",), SELECTION):
        said = world.run(*options, more={"ANYFLASH_CACHE": str(cache)})
        text = " ".join((said.out + said.err).split())
        assert said.code in (1, 3) and said.compiled == [], said
        assert "nvcc cannot compile in" in text and "set ANYFLASH_CACHE to" in text, said


def test_an_output_that_cannot_be_written_to_is_told_before_the_build(world):
    synthetic.write(world.folder / "file", "")
    path = str(world.folder / "file")
    said = world.run(*SELECTION, "--output", path)
    assert said.code == 3 and said.compiled == [] and path in said.err, said


@pytest.mark.parametrize("size", ["nanG", "infG", "-8G", "0G", "1e30G"])
def test_memory_that_is_no_size_is_refused(world, size):
    said = world.run(*SELECTION, "--memory", size)
    assert said.code == 2 and "--memory takes a size" in said.err, said


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", None])
def test_a_configuration_that_says_nothing_can_be_said_by_hand(world, text):
    path = world.folder / "config.json"
    if text is not None:
        path.write_text(text)
    said = world.run("--for", str(path))
    assert said.code == 3 and "hint: " in said.err and "--head-dim 128" in said.err, said


def test_check_names_only_what_build_can_be_told(world):
    said = world.run("--check")
    assert "host-compiler      unknown" in said.out and "CXX=g++-12" in said.out, said
    assert "--given" not in said.out, said
