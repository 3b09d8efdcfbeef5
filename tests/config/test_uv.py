"""What `anyflash config uv` writes, locked and synchronised by the real uv."""
import hashlib

import pytest
from conftest import MINOR, SDIST, VERSION

OTHER = MINOR + 1


def assert_stable(world, *words):
    """A second sync changes nothing, and uv reports that everything is in order."""
    again = world.uv("sync", *words)
    assert again.code == 0, again
    assert " - " not in again.err and " + " not in again.err, again
    checked = world.uv("sync", "--check", *words)
    assert checked.code == 0, checked


def locked(world, *words):
    """A project with our configuration that uv has locked, from the files of the release."""
    written = world.config("config", "uv", "--write", "--from",
                           str(world.index.folder("release")), *words)
    assert written.code == 0, written
    done = world.uv("lock")
    assert done.code == 0, done


def test_official_wheel_locks_syncs_and_stays(uv_world):
    world = uv_world
    world.pyproject()
    world.machine()
    wheel = world.wheel()
    locked(world)
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in (
        world.project / "uv.lock").read_text()
    assert world.uv("sync").code == 0
    assert world.installed("flash_attn") == [f"flash_attn-{VERSION}.dist-info"]
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert_stable(world)


def test_official_wheel_by_address_is_installed_again_as_we_warn(uv_world):
    world = uv_world
    if world.uv_version() < (0, 10):
        pytest.skip("needs uv 0.10 or newer: an older one leaves the wheel alone")
    world.pyproject()
    world.machine()
    world.wheel()
    written = world.config("config", "uv", "--write", "--source", "url")
    assert "reinstalls this file" in written.err
    assert world.uv("sync").code == 0
    assert f" - flash-attn=={VERSION}" in world.uv("sync").err
    assert world.uv("sync", "--check").code == 1


def test_honest_wheel_is_named_by_address_and_stays(uv_world):
    world = uv_world
    world.pyproject()
    world.machine()
    world.wheel(honest=True)
    locked(world)
    assert not (world.project / "wheels").exists()
    assert world.uv("sync").code == 0
    assert len(world.installed("flash_attn")) == 1
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert_stable(world)


def test_wrong_hash_stops(uv_world):
    world = uv_world
    world.pyproject()
    world.machine()
    wheel = world.wheel()
    locked(world)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = world.project / "uv.lock"
    lock.write_text(lock.read_text().replace(digest, "0" * 64))
    done = world.uv("sync", "--locked")
    assert done.code == 1 and "Hash mismatch" in done.err, done


@pytest.mark.parametrize("words", [("--extra", "flash"), ()])
def test_extra_is_installed_only_when_asked_for(uv_world, words):
    world = uv_world
    path = world.pyproject()
    path.write_text(path.read_text().replace(', "flash-attn"', ""))
    world.machine()
    world.wheel()
    locked(world, *words)
    assert world.uv("sync").code == 0 and world.installed("flash_attn") == []
    assert world.uv("sync", "--extra", "flash").code == 0
    assert len(world.installed("flash_attn")) == 1
    assert_stable(world, "--extra", "flash")


def test_two_pythons_and_platforms_in_one_project(uv_world):
    world = uv_world
    world.pyproject(python=f">=3.{MINOR},<3.{OTHER + 1}")
    for minor, arch in ((MINOR, "x86_64"), (OTHER, "x86_64"), (MINOR, "aarch64")):
        world.machine(minor=minor, arch=arch)
        world.wheel(minor=minor, arch=arch)
    locked(world)
    assert world.uv("sync").code == 0
    assert len(world.installed("flash_attn")) == 1
    assert_stable(world)
    for platform in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu",
                     "x86_64-pc-windows-msvc", "aarch64-apple-darwin"):
        tree = world.uv("tree", "--python-platform", platform, "--python-version", f"3.{MINOR}")
        assert tree.code == 0 and ("flash-attn" in tree.out) == ("linux" in platform), tree


def test_machines_that_want_another_torch_are_locked_each(uv_world):
    world = uv_world
    path = world.pyproject(python=f">=3.{MINOR},<3.{OTHER + 1}")
    world.machine(minor=MINOR)
    world.wheel(minor=MINOR)
    world.machine(minor=OTHER, torch="2.9.0+cu128")
    world.wheel(minor=OTHER, torch="2.9")
    locked(world)
    text = (world.project / "uv.lock").read_text()
    assert 'version = "2.8.0"' in text and 'version = "2.9.0"' in text
    assert path.read_text().count("path = ") == 2


def test_nothing_builds_where_no_source_applies(uv_world):
    """The dependency allows no more than the sources, so the source archive is not locked."""
    world = uv_world
    world.pyproject(python=f">=3.{MINOR}")
    world.machine()
    world.wheel()
    locked(world)
    assert SDIST not in (world.project / "uv.lock").read_text()


def test_python_outside_requires_python_is_refused_before_uv_drops_it(uv_world):
    world = uv_world
    world.pyproject(python=f">=3.{OTHER}")
    world.machine()
    world.wheel()
    done = world.config("config", "uv", "--write")
    assert done.code == 1 and "install nothing" in done.err
