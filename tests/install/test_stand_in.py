"""`anyflash run` where no wheel fits: anyflash's own flash_attn, as a wheel for the real pip
and uv."""
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios

import pytest

from conftest import make_wheel, visible
from test_run import (ARCH, call, command, leftovers, project,  # noqa: F401 (a fixture)
                      run, start_sleeping, version, write)

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("GOVERN_SANITIZED")),
    reason="needs a build without sanitizers: Python, which loads the library, has none")

NOTE = ("no flash-attn wheel fits torch 2.8.0+cu128; installing anyflash's stand-in as "
        "flash-attn {}, which computes with torch's own kernels")
LISTED = ("import importlib.metadata as m; d = m.distribution('flash-attn');"
          "print(d.version, all(f.locate().exists() for f in d.files))")


@pytest.fixture(autouse=True)
def interface_without_torch(project):  # noqa: F811
    """The stand-in torch has no operators, so functions over them are empty objects, too."""
    with (project.site / "torch" / "__init__.py").open("a") as module:
        module.write("import sys\nsys.modules['flash_attn.flash_attn_interface'] = Nothing()\n")


def marked(place):
    """The version that the installed module states, if it is the stand-in."""
    done = place.python("import torch, flash_attn; assert flash_attn.__anyflash__;"
                        "print(flash_attn.__version__)")
    return done.stdout.strip() or done.stderr


def test_pinned_version_without_a_wheel_gets_the_stand_in_and_undo_takes_it_back(project):
    before = project.tree()
    write(project, "other\nflash_attn==2.7.4.post1  # a comment\n")
    done = run(project, "-r", "requirements.txt")
    assert done.returncode == 0, done.all
    assert NOTE.format("2.7.4.post1") in done.stderr
    assert marked(project) == "2.7.4.post1"
    assert project.python(LISTED).stdout == "2.7.4.post1 True\n"
    assert (project.site / "other").is_dir()
    assert "anyflash's stand-in for flash-attn" in project.run("undo", "--list").stdout
    undone = project.run("undo")
    assert undone.returncode == 0, undone.all
    left = {name: value for name, value in project.tree().items()
            if "packages/other" not in name and name != ".lock"}
    assert left == before and leftovers(project) == []


def read_all(terminal):
    """What was written to the other side, which is closed: it comes in parts."""
    parts = []
    with contextlib.suppress(OSError):  # how Linux says that there is no more
        while part := os.read(terminal, 65536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_its_note_fits_the_terminal(project):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    wanted = command(project, "flash-attn==2.7.4.post1")
    words = call(project, *ARCH, "--dry-run", "--", *wanted)
    subprocess.run([str(word) for word in words], cwd=project.root, env=project.environment(),
                   stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    said = read_all(ours)
    assert NOTE.format("2.7.4.post1") in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("wanted, expected", [
    ("flash-attn", "2.8.3"), ("flash-attn<2.8,>2", "2.7.4"), ("flash-attn==2.5.*", None),
    ("flash-attn==2.6.0+local.1", "2.6.0+local.1"), ("flash-attn==1.0.9", None)])
def test_its_version_is_one_that_the_project_allows(project, wanted, expected):
    rows = [json.loads(line) for line in project.catalog.read_text().splitlines()]
    for one in rows[1:]:
        one["torch"] = "2.5"
    project.catalog.write_text("".join(json.dumps(one) + "\n" for one in rows))
    done = run(project, wanted)
    assert done.returncode == (1 if expected is None else 0), done.all
    assert version(project) == (expected or "")
    if expected is None:
        assert "no wheel of" in done.stdout and "stand-in" not in done.all


def test_it_can_be_refused_and_be_asked_for(project):
    before = project.tree()
    done = run(project, "flash-attn==2.7.4.post1", options=(*ARCH, "--prefer", "wheel"))
    assert done.returncode == 1 and "not run: " in done.stdout, done.all
    done = run(project, "flash-attn", options=(*ARCH, "--prefer", "build"))
    assert done.returncode == 2 and "--prefer wheel or torch-kernels" in done.stderr, done.all
    assert project.tree() == before
    done = run(project, "flash-attn==2.7.4", options=(*ARCH, "--prefer", "torch-kernels"))
    assert done.returncode == 0 and marked(project) == "2.7.4", done.all


def test_it_is_not_made_where_torchs_kernels_do_not_serve_the_gpu(project):
    before = project.tree()
    done = run(project, "flash-attn==2.7.4.post1", options=("--arch", "3.7"))
    assert done.returncode == 1 and "no wheel of flash-attn" in done.stdout, done.all
    assert project.tree() == before


def test_hashes_and_addresses_rule_it_out(project):
    write(project, f"flash-attn==2.7.4.post1 --hash=sha256:{'0' * 64}\n")
    done = run(project, "-r", "requirements.txt")
    assert done.returncode == 1, done.all
    assert "no stand-in can have these hashes" in done.stdout
    done = run(project, "flash-attn @ git+https://example.invalid/f.git")
    assert done.returncode == 1 and "names sources" in done.stdout, done.all


def test_anyflash_that_is_installed_stays_its_own_package(project):
    assert project.run("package", "install").returncode == 0
    before = project.tree()
    done = run(project, "flash-attn==2.7.4.post1")
    assert done.returncode == 0, done.all
    new = {name for name in visible(project.tree()) if name not in before}
    assert not any("/anyflash/" in name for name in new), sorted(new)[:3]
    assert marked(project) == "2.7.4.post1"


def test_another_anyflash_is_not_replaced(project):
    info = project.site / "anyflash-0.0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anyflash\nVersion: 0.0.9\n")
    done = run(project, "flash-attn==2.7.4.post1")
    assert done.returncode == 1 and version(project) == "", done.all


def test_the_commands_know_it(project):
    assert run(project, "flash-attn==2.7.4.post1").returncode == 0
    assert project.run("doctor").stdout.startswith(
        "flash-attn 2.7.4.post1 (anyflash's stand-in) is installed\n")
    causes = json.loads(project.run("doctor", "--json").stdout)
    assert "shim" in json.dumps(causes) and "installed-but-unloadable" not in json.dumps(causes)
    assert "flash-attn 2.7.4.post1 (anyflash's stand-in)" in project.run("verify").stdout
    status = project.run("shim", "status")
    assert status.stdout.startswith("flash_attn 2.7.4.post1 by anyflash is in"), status.all
    refused = project.run("shim", "install")
    assert refused.returncode == 1 and "is anyflash's stand-in already" in refused.stderr
    assert "nothing to do" in project.run("package", "install").stdout
    removed = project.run("shim", "remove")
    assert removed.returncode == 0, removed.all
    assert not list(project.site.glob("[a-z]*flash*")), removed.all


def test_a_wheel_that_fits_replaces_it(project):
    assert run(project, "flash-attn==2.7.4.post1").returncode == 0
    done = run(project, "flash-attn==2.8.3")
    assert done.returncode == 0 and version(project) == "2.8.3", done.all
    assert not (project.site / "anyflash").exists()


def test_flash_attn_from_source_is_not_what_this_is_for(project):
    before = project.tree()
    name = "UV_NO_BINARY_PACKAGE" if project.installer == "uv" else "PIP_NO_BINARY"
    for value in (":all:", "other,flash_attn"):
        done = run(project, "flash-attn", env={name: value})
        assert done.returncode == 2, done.all
        assert f"error: {name} asks for flash-attn from source" in done.stderr
    done = run(project, "--no-binary", "flash-attn", "flash-attn")
    assert done.returncode == 2, done.all
    assert "error: --no-binary asks for flash-attn from source" in done.stderr
    assert project.tree() == before
    assert run(project, "other", env={name: ":all:"}, options=("--dry-run",)).returncode == 0
    assert run(project, "flash-attn", env={name: "other"}).returncode == 0


def test_sources_of_the_same_version_are_not_compiled(project):
    """pip and uv would take the newest sources, if they were allowed to."""
    (project.index / "flash_attn-2.7.4.post1.tar.gz").write_bytes(b"no archive")
    done = run(project, "flash-attn==2.7.4.post1")
    assert done.returncode == 0 and marked(project) == "2.7.4.post1", done.all


def test_a_broken_flash_attn_of_the_same_version_is_named(project):
    broken = make_wheel(project.root / "broken", version="2.7.4.post1", text="import nowhere")
    subprocess.run([str(word) for word in command(project, "--no-deps", broken)], check=True,
                   env=project.environment())
    done = run(project, "flash-attn==2.7.4.post1")
    if project.installer == "uv":  # it compares the address, too
        assert done.returncode == 0, done.all
        assert "nowhere" not in (project.site / "flash_attn/__init__.py").read_text()
        return
    assert done.returncode == 1, done.all
    assert "flash-attn 2.7.4.post1 was there before and stays" in done.stderr


def test_kill_leaves_what_the_installer_left_and_the_next_run_cleans_up(project):
    before = visible(project.tree())
    requirement = "flash-attn==2.7.4.post1"
    installer, words, child = start_sleeping(project, requirement, start_new_session=True)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    assert visible(project.tree()) == before
    assert any("anyflash-run-" in name for name in leftovers(project))
    installer.write_text("#!/bin/sh\nexit 0\n")
    old = next((project.home / ".cache/anyflash").glob("anyflash-run-*"))
    young, link = old.with_name("anyflash-run-young"), old.with_name("anyflash-run-link")
    young.mkdir()
    link.symlink_to(project.root)
    for path in (old, link):
        os.utime(path, (1, 1), follow_symlinks=False)
    again = subprocess.run(words, cwd=project.root, env=project.environment(), timeout=60)
    assert again.returncode == 1  # it installed nothing
    assert young.is_dir() and link.is_symlink()
    young.rmdir()
    link.unlink()
    assert not any("anyflash-run-" in name for name in leftovers(project))
