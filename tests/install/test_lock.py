"""Two runs at once, and the state file."""
import fcntl
import os
import sqlite3
import stat
import struct
import subprocess

import pytest

from conftest import KILLABLE, make_wheel


def hold(place):
    """Locks the environment from this process, as a run of anyflash would."""
    file = open(place.site / ".anyflash.lock", "w+")
    file.write("process 1 on elsewhere (install, since yesterday)")
    file.flush()
    whole = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(file, 37, whole)  # F_OFD_SETLK
    return file


def test_a_second_run_waits_and_says_for_whom(quick_place, tmp_path):
    place = quick_place
    lock = hold(place)
    child = place.start("install", make_wheel(tmp_path))
    said = iter(child.stderr.readline, "")
    assert any("waiting for process 1 on elsewhere (install, since yesterday)" in line
               for line in said)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    assert not (place.site / "flash_attn").exists()
    lock.close()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, out + err


def test_no_wait_says_who_holds_it(quick_place, tmp_path):
    lock = hold(quick_place)
    done = quick_place.run("install", make_wheel(tmp_path), "--no-wait")
    assert done.returncode == 3
    assert "the environment is in use by process 1 on elsewhere" in done.stderr
    lock.close()


def test_a_lock_file_left_behind_holds_nobody(quick_place, tmp_path):
    (quick_place.site / ".anyflash.lock").write_text("process 1 on elsewhere")
    done = quick_place.run("install", make_wheel(tmp_path), "--no-wait")
    assert done.returncode == 0, done.all
    assert not (quick_place.site / ".anyflash.lock").exists()


@pytest.mark.parametrize("words", [(), ("7",), ("--forget",), ("--forget", "7")])
def test_nothing_to_undo_needs_no_lock_and_writes_nothing(quick_place, words):
    (quick_place.site / ".anyflash.lock").mkdir()  # no file can be opened, as if it were denied
    before = quick_place.tree()
    done = quick_place.run("undo", *words, "--json")
    assert done.returncode == 1 and '"answer": "no"' in done.stdout, done.all
    assert quick_place.tree() == before and not quick_place.state.exists()


def test_many_runs_at_once_leave_one_whole_installation(quick_place, tmp_path):
    place = quick_place
    wheels = [make_wheel(tmp_path / str(i), version=f"2.{i}.0") for i in range(4)]
    children = [place.start("install", wheel) for wheel in wheels]
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, out + err
    assert len(list(place.site.glob("flash_attn-*.dist-info"))) == 1
    for _ in wheels:
        assert place.run("undo").returncode == 0
    assert place.own() == [] and not (place.site / "flash_attn").exists()


def test_the_state_is_its_owners_alone(quick_place, tmp_path):
    assert quick_place.run("install", make_wheel(tmp_path)).returncode == 0
    assert stat.S_IMODE((quick_place.state / "state.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(quick_place.state.stat().st_mode) == 0o700


@pytest.fixture(params=[0o002, 0o022, 0o077], ids="umask {:03o}".format)
def state_file(request, quick_place):
    """state.db in its folder: nobody else may write to either, whatever the umask is."""
    umask = os.umask(request.param)
    quick_place.state.mkdir(mode=0o700)
    path = quick_place.state / "state.db"
    path.touch(mode=0o600)
    yield path
    os.umask(umask)


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100,
                                     b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_state_is_moved_aside(quick_place, state_file, tmp_path, content):
    place = quick_place
    state_file.write_bytes(content)
    assert place.run("find", "torch=2.8").returncode == 0
    done = place.run("install", make_wheel(tmp_path))
    assert done.returncode == 0, done.all
    if content:
        assert "the state file was damaged" in done.stderr
        assert (place.state / "state.db.corrupt-1").read_bytes() == content
    assert place.run("undo").returncode == 0


def test_a_newer_state_is_left_alone(quick_place, state_file, tmp_path):
    place = quick_place
    with sqlite3.connect(state_file) as database:
        database.execute("PRAGMA user_version = 99")
    done = place.run("install", make_wheel(tmp_path))
    assert done.returncode == 3 and "newer anyflash" in done.stderr
    assert place.run("find", "torch=2.8").returncode == 0


def test_without_a_home_a_change_says_what_it_needs(quick_place, tmp_path):
    place = quick_place
    done = place.run("install", make_wheel(tmp_path), env={"HOME": "", "ANYFLASH_STATE": ""})
    assert done.returncode == 3 and "ANYFLASH_STATE" in done.stderr
    assert place.run("find", "torch=2.8",
                     env={"HOME": "", "ANYFLASH_STATE": ""}).returncode == 0


def test_a_read_only_environment_is_refused_with_the_reason(quick_place, tmp_path):
    place = quick_place
    done = subprocess.run(["mount", "--bind", "-o", "ro", place.venv, place.venv],
                          capture_output=True)
    if done.returncode != 0:
        pytest.skip("needs root that may mount, read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", place.venv], check=True)
        done = place.run("install", make_wheel(tmp_path))
        assert done.returncode == 1 and "not writable" in done.stdout, done.all
    finally:
        subprocess.run(["umount", place.venv])


@pytest.mark.parametrize("umask, mode, lock_mode", [
    (0o022, 0o755, 0o644), (0o077, 0o755, 0o600), (0o022, 0o775, 0o666), (0o077, 0o775, 0o666)])
def test_others_may_lock_what_they_may_change(quick_place, tmp_path, umask, mode, lock_mode):
    """A killed run leaves its lock file to the other users of a shared environment."""
    site = quick_place.site
    site.chmod(mode)
    before = os.umask(umask)
    child = quick_place.start("install", make_wheel(tmp_path), program=KILLABLE,
                              env={"ANYFLASH_KILL_AT": "1"})
    os.umask(before)
    child.communicate()
    assert stat.S_IMODE((site / ".anyflash.lock").stat().st_mode) == lock_mode
