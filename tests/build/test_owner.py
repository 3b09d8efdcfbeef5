"""A build obeys no cache that another user owns or can write to: it runs programs of it."""
import os
import pwd
import shutil

import pytest

from world import SELECTION, World

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make another owner")
KEPT = ["", "build", "build/tools-uv", "build/sources", "build/tools-nvrtc",
        "build/tools-cccl"]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def trap(world, cache):
    """A uv in the cache that says when it runs."""
    uv = cache / "build/tools-uv/bin/uv"
    uv.parent.mkdir(parents=True)
    for kept in ("sources", "tools-nvrtc", "tools-cccl"):
        (cache / "build" / kept).mkdir(exist_ok=True)
    uv.write_text(f"#!/bin/sh\ntouch {world.folder}/ran\n")
    uv.chmod(0o755)
    for path in (cache, *(path for path in cache.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    return cache


def refused(world, text, more=None):
    shutil.rmtree(world.folder / "ran", ignore_errors=True)
    for words in ([], ["--check"]):
        said = world.run(*SELECTION, *words, more=more or {})
        assert said.code != 0 and said.compiled == [] and text in said.err + said.out, said
        assert not (world.folder / "ran").exists()


@needs_root
@pytest.mark.parametrize("kept", KEPT)
def test_what_another_user_owns(world, kept):
    cache = trap(world, world.folder / "cache")
    os.chown(cache / kept, pwd.getpwnam("nobody").pw_uid, -1)
    refused(world, "belongs to another user")


@pytest.mark.parametrize("mode", [0o775, 0o757])
@pytest.mark.parametrize("kept", KEPT)
def test_what_others_can_write(world, kept, mode):
    cache = trap(world, world.folder / "cache")
    (cache / kept).chmod(mode)
    refused(world, "other users may write to")


@needs_root
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("variable, below", [
    ("XDG_CACHE_HOME", "anyflash"), ("HOME", ".cache/anyflash"), ("ANYFLASH_CACHE", "a")])
def test_a_cache_below_a_folder_of_another_user(world, variable, below, is_there):
    home = world.folder / "home-of-nobody"
    home.mkdir()
    if is_there:
        trap(world, home / below)
    os.chown(home, pwd.getpwnam("nobody").pw_uid, -1)
    value = home / below if variable == "ANYFLASH_CACHE" else home
    more = {"ANYFLASH_CACHE": "", "XDG_CACHE_HOME": "", variable: str(value)}
    refused(world, "belongs to another user", more=more)
    assert is_there or list(home.iterdir()) == []


def test_a_cache_below_a_folder_that_everybody_can_write_to(world):
    (world.folder / "open").mkdir()
    shutil.copytree(world.folder / "cache", world.folder / "open/cache")
    (world.folder / "open").chmod(0o777)
    refused(world, "other users may write to",
            more={"ANYFLASH_CACHE": str(world.folder / "open/cache")})
    (world.folder / "open").chmod(0o1777)
    said = world.run(*SELECTION, more={"ANYFLASH_CACHE": str(world.folder / "open/cache")})
    assert said.code == 0, said
