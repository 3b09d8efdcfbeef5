"""After a killed run, commands that only read change nothing and name the repair command, which
restores the old state or completes the new one."""
import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import KILLABLE, PROGRAM, make_wheel, visible

STEPS_MAX = 60


@pytest.fixture
def upgraded(quick_place, tmp_path):
    """A place with an old version, a wheel that replaces it, and the trees before and after."""
    place = quick_place
    old = make_wheel(tmp_path / "a", version="2.7.4",
                     files={"hopper/__init__.py": b"", "flash_attn/only_old.py": b"1\n"})
    new = make_wheel(tmp_path / "b", version="2.8.3", files={"flash_attn.libs/a.txt": b"a"})
    assert place.run("install", old).returncode == 0
    before = visible(place.tree())
    assert place.run("install", new).returncode == 0
    after = visible(place.tree())
    assert place.run("undo").returncode == 0
    assert visible(place.tree()) == before
    return place, new, before, after


def names(tree):
    """The tree without times, because files that are unpacked again are newer."""
    return {key: value if isinstance(value, str) else (value[0], value[2])
            for key, value in tree.items()}


def check(place, before, after):
    """Repairs after a killed run: one of the two trees must be there, and no leftovers."""
    done = place.run("undo", "--recover")
    assert done.returncode == 0, done.all
    tree = visible(place.tree())
    is_old = tree == before
    assert is_old or names(tree) == names(after)
    assert [name for name in place.own()
            if not name.startswith(".anyflash-old-") and name != ".anyflash.lock"] == []
    return is_old


def test_install_killed_at_every_step(upgraded):
    place, new, before, after = upgraded
    seen = []
    for step in range(1, STEPS_MAX):
        done = place.run("install", new, env={"ANYFLASH_KILL_AT": str(step)}, program=KILLABLE)
        seen.append(check(place, before, after))
        if not seen[-1]:
            assert place.run("undo").returncode == 0
        assert visible(place.tree()) == before
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.all
    assert done.returncode == 0 and step > 12
    assert True in seen and seen.count(False) >= 3


def test_undo_killed_at_every_step(upgraded):
    place, new, before, after = upgraded
    for step in range(1, STEPS_MAX):
        assert place.run("install", new).returncode == 0
        after_now = visible(place.tree())
        done = place.run("undo", env={"ANYFLASH_KILL_AT": str(step)}, program=KILLABLE)
        is_old = check(place, before, after_now)
        if not is_old:
            assert visible(place.tree()) == after_now
            assert place.run("undo").returncode == 0
        assert visible(place.tree()) == before
        if done.returncode == 0:
            break
    assert done.returncode == 0 and step > 10


def test_giving_up_killed_at_every_step_keeps_all_or_nothing(upgraded):
    place, new, before, after = upgraded

    def kept():
        folders = [name for name in place.own() if name != ".anyflash.lock"]
        listed = json.loads(place.run("undo", "--list", "--json").stdout)["installations"]
        assert len(folders) == len(listed), (step, folders, listed)
        return [one["id"] for one in listed]
    outcomes = []
    for step in range(1, STEPS_MAX):
        if len(kept()) < 2:
            assert place.run("install", new).returncode == 0
        tree = visible(place.tree())
        done = place.run("undo", "--forget", str(kept()[0]), program=KILLABLE,
                         env={"ANYFLASH_KILL_AT": str(step)})
        assert place.run("undo", "--recover").returncode == 0
        assert visible(place.tree()) == tree
        outcomes.append(len(kept()))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.all
    assert done.returncode == 0 and outcomes[0] == 2 and outcomes.count(1) >= 3


def test_recovery_killed_at_every_step(upgraded):
    place, new, before, after = upgraded
    every = 1 if os.environ.get("ANYFLASH_TEST_NIGHT") else 3
    for step in range(4, STEPS_MAX, every):
        done = place.run("install", new, env={"ANYFLASH_KILL_AT": str(step)}, program=KILLABLE)
        if done.returncode == 0:
            break
        for again in range(1, STEPS_MAX):
            done = place.run("undo", "--recover", env={"ANYFLASH_KILL_AT": str(again)},
                             program=KILLABLE)
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.all
        if not check(place, before, after):
            assert place.run("undo").returncode == 0
        assert visible(place.tree()) == before


@pytest.mark.skipif(b"__asan_init" in Path(PROGRAM).read_bytes(),
                    reason="AddressSanitizer reserves all addresses for itself")
def test_install_without_memory_keeps_all_or_nothing(upgraded):
    """The program, or the installer that it starts, runs out of memory."""
    place, new, before, after = upgraded
    codes = set()
    for megabytes in (14, 20, 26, 32, 40, 50):
        limit = (megabytes << 20,) * 2
        done = subprocess.run(place.command("install", new), cwd=place.root, timeout=120,
                              env=place.environment(), capture_output=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        codes.add(done.returncode)
        if not check(place, before, after):
            assert place.run("undo").returncode == 0
        assert visible(place.tree()) == before
    assert 3 in codes and codes <= {0, 1, 3, 127}  # 127: the loader lacked it


@pytest.fixture
def unfinished(upgraded):
    """A place whose last installation was killed while it moved files."""
    place, new, before, after = upgraded
    for step in range(1, STEPS_MAX):
        place.run("install", new, env={"ANYFLASH_KILL_AT": str(step)}, program=KILLABLE)
        if names(visible(place.tree())) not in (names(before), names(after)):
            return place, new, before, after
        assert place.run("undo", "--recover").returncode == 0
        if visible(place.tree()) != before:
            assert place.run("undo").returncode == 0
    raise AssertionError("no step leaves a mixed tree")


LOOKING = (["doctor"], ["plan"], ["find", "--here", "torch=2.8"], ["machine"], ["verify"],
           ["inspect", "installed"], ["undo", "--list"], ["config", "pip"])


def test_commands_that_look_leave_an_unfinished_run_and_name_the_repair(unfinished):
    place, new, before, after = unfinished
    tree, own = place.tree(), place.own()
    for words in (*LOOKING, ["install", "--dry-run"], ["build", "--check"]):
        done = place.run(*words)
        assert "interrupted" in done.stderr, done.all
        assert "`anyflash undo --recover`" in done.stderr, done.all
        assert (place.tree(), place.own()) == (tree, own), words
    assert place.run("undo", "--recover").returncode == 0
    assert visible(place.tree()) == before
    for words in LOOKING:
        assert "interrupted" not in place.run(*words).stderr, words


def test_install_repairs_first_and_says_so(unfinished):
    place, new, before, after = unfinished
    done = place.run("install", new)
    assert done.returncode == 0 and "its changes were rolled back" in done.stderr, done.all
    assert names(visible(place.tree())) == names(after)


def test_undo_repairs_first_and_says_so(unfinished):
    place, new, before, after = unfinished
    done = place.run("undo")
    assert done.returncode == 0 and "its changes were rolled back" in done.stderr, done.all


def test_repair_without_an_interrupted_run_is_done_at_once(quick_place):
    done = quick_place.run("undo", "--recover")
    assert done.returncode == 0 and "nothing to repair" in done.stdout, done.all
    assert not quick_place.state.exists()


@pytest.mark.parametrize("words", [w for w in LOOKING if w[0] != "inspect"], ids=" ".join)
def test_a_command_that_looks_creates_no_state(quick_place, words):
    tree = quick_place.tree()
    quick_place.run(*words)
    assert not quick_place.state.exists()
    assert quick_place.tree() == tree


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_install_stopped_at_every_50_ms(upgraded, number):
    place, new, before, after = upgraded
    for tick in range(1, 100):
        child = place.start("install", new)
        time.sleep(0.05 * tick)
        ended = child.poll() is not None
        child.send_signal(number)
        child.communicate(timeout=60)
        if not ended and number != signal.SIGKILL and child.returncode != 0:
            assert child.returncode in (130, -number)  # the latter before main() began
            assert visible(place.tree()) == before
        if not check(place, before, after):
            assert place.run("undo").returncode == 0
        assert visible(place.tree()) == before
        if ended:
            break
    assert ended


def wait_until(holds):
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(pid):
    """The command of a process; empty while it is being replaced, and when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_the_installer_does_not_run_on_after_a_kill(quick_place, tmp_path):
    place, pid = quick_place, tmp_path / "pid"
    uv = place.bin / "uv"
    uv.unlink(missing_ok=True)
    uv.write_text(f"#!/bin/sh\n[ $1 = --version ] && exec echo uv 0.13.9\n"
                  f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600\n")
    uv.chmod(0o755)
    child = place.start("install", make_wheel(tmp_path))
    wait_until(pid.exists)
    installer = pid.read_text().strip()
    wait_until(lambda: running(installer).startswith(b"sleep"))
    child.kill()
    child.communicate()
    wait_until(lambda: running(installer) == b"")
