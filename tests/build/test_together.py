"""Builds that share a cache; environment variables, folders and options."""

import shutil

import pytest

import synthetic
from bad_world import SELECTION, World

pytestmark = pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")
OTHER = (*SELECTION[:5], "alibi", *SELECTION[6:])  # another cache folder, the same tools
UV = """\
#!/bin/sh
echo "$1" >>{calls}
[ "$1" = venv ] || exit 0
for folder; do :; done
[ -e "$folder" ] && echo "hint: Use the --clear flag" >&2 && exit 2
sleep 1
{cp} -a {copy} "$folder"
"""
NO_NETWORK = """\
#!/bin/sh
[ "$1" = pip ] || exec {cp} -a {copy} {tools}
echo "error: Request failed after 3 retries in 10.9s" >&2
echo "  cause: Failed to fetch: https://index.invalid/simple/setuptools/" >&2
echo "  cause: client error (Connect)" >&2
echo "  cause: failed to lookup address information" >&2
echo "hint: nobody needs this" >&2
exit 2
"""


@pytest.fixture(name="world")
def make_world(tmp_path):
    return World(tmp_path)


def without_tools(world, text):
    """Replaces uv by this script; the build tools are only in the folder it copies from."""
    tools, = world.folder.glob("cache/build/tools-*")
    copy = world.folder / "tools.copy"
    tools.rename(copy)
    (copy / "complete").unlink()
    calls = world.folder / "calls"
    calls.write_text("")
    world.replace("uv", text.format(calls=calls, cp=shutil.which("cp"), copy=copy, tools=tools))
    return calls


def test_two_builds_at_once_make_their_common_tools_once(world):
    calls = without_tools(world, UV)
    processes = [world.start(*options) for options in (SELECTION, OTHER)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
    assert calls.read_text().split() == ["venv", "pip"]
    assert not list(world.folder.glob("cache/build/tools-*/tools.copy"))


def test_who_waits_for_another_build_says_so(world):
    without_tools(world, UV)
    errors = [process.communicate(timeout=60)[1]
              for process in [world.start(*options) for options in (SELECTION, OTHER)]]
    assert any("waiting for another build that is using" in text for text in errors), errors


def test_without_network_the_failure_names_the_address_and_what_to_do(world):
    without_tools(world, NO_NETWORK)
    said = world.run(offline=False)
    assert said.code == 3 and said.compiled == [], said
    assert "UV_DEFAULT_INDEX=URL" in said.err and "nobody needs this" not in said.err, said
    assert "Failed to fetch: https://index.invalid/simple/setuptools/" in said.err, said
    assert "failed to lookup address information" in said.err, said


def test_variables_meant_for_pip_do_not_empty_the_wheel(world):
    names = ("FLASH_ATTENTION_SKIP_CUDA_BUILD", "FLASH_ATTENTION_FORCE_CXX11_ABI",
             "FLASH_ATTENTION_TRITON_AMD_ENABLE")
    setup = synthetic.SETUP.replace("setuptools.setup(", "import os\n" + "".join(
        f"assert os.environ['{name}'] == 'FALSE'\n" for name in names) +
        "assert os.environ['BUILD_TARGET'] == 'cuda'\nsetuptools.setup(")
    world.pack([("setup.py", setup), ("csrc/flash_attn/flash_api.cpp", ""),
                *((f"csrc/flash_attn/src/{name}", "") for name in synthetic.files_of())])
    said = world.run(more={**dict.fromkeys(names, "TRUE"), "BUILD_TARGET": "rocm"})
    assert said.code == 0, said


@pytest.mark.parametrize("name", ["wheel", "packaging", "zipfile"])
def test_modules_in_the_folder_it_is_called_in_are_not_taken(world, name):
    folder = world.folder / "project"
    synthetic.write(folder / f"{name}.py", "raise SystemExit('of somebody else')\n")
    said = world.run(before=("env", "-C", str(folder)))
    assert said.code == 0, said


@pytest.mark.parametrize("name", ["with blank", "a:b", "o'brien", "cash$"])
def test_a_cache_in_which_torch_cannot_build_is_refused(world, name):
    cache = world.folder / name
    shutil.copytree(world.folder / "cache", cache, symlinks=True)
    for options in (("--check",), SELECTION):
        said = world.run(*options, more={"ANYFLASH_CACHE": str(cache)})
        text = " ".join((said.out + said.err).split())
        assert said.code in (1, 3) and said.compiled == [], said
        assert "torch cannot build in" in text and "set ANYFLASH_CACHE to" in text, said


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
