"""tools/packages.sh where nothing is installed: by root, by sudo with and without a password,
on a terminal and without one. The programs that it calls are scripts that write down how."""
import contextlib
import os
import pty
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "packages.sh"
PROGRAMS = {
    "id": "echo $TRY_ID",
    "dpkg-query": "true",
    "apt-get": 'echo "apt-get $*" >>"$TRY_LOG"',
    # As sudo does, it asks unless -n is there; TRY_SUDO says what comes of it.
    "sudo": """case "$1 $TRY_SUDO" in
        "-n free") exit 0 ;;
        -n*) exit 1 ;;
        "-v password") echo "asked" >>"$TRY_LOG"; exit 0 ;;
        -v*) exit 1 ;;
    esac
    echo sudo >>"$TRY_LOG"; exec "$@" """,
}


@pytest.fixture
def missing(tmp_path):
    """missing(user, sudo, terminal): exit code, what was said, which programs were called."""
    def run(user="1000", sudo="none", terminal=False):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in PROGRAMS.items():
            if name != "sudo" or sudo != "none":
                (folder / name).write_text(f"#!/bin/sh\n{text}\n")
                (folder / name).chmod(0o755)
        for tool in ("sh", "sed", "tr", "grep", "env"):
            (folder / tool).symlink_to(f"/bin/{tool}")
        log = tmp_path / "log"
        log.write_text("")
        ours, theirs = pty.openpty()
        side = theirs if terminal else subprocess.DEVNULL
        with open(tmp_path / "said", "w+b") as said:
            # Only stderr has to be a terminal for a question, and only stdin for its answer.
            done = subprocess.run([SCRIPT], stdin=side, stdout=said,
                                  stderr=side if terminal else said, timeout=60,
                                  env={"PATH": str(folder), "TRY_ID": user, "TRY_SUDO": sudo,
                                       "TRY_LOG": str(log)})
            os.close(theirs)
            said.seek(0)
            text = said.read().decode()
        with contextlib.suppress(OSError):  # the other side is closed, and all of it was read
            while terminal:
                text += os.read(ours, 4096).decode()
        os.close(ours)
        return done.returncode, text, log.read_text().splitlines()
    return run


def installs(calls, before=()):
    return (calls[:len(before) + 1] == [*before, "apt-get update -qq"]
            and calls[-1].startswith("apt-get install -y --no-install-recommends gcc "))


def test_root_installs(missing):
    code, said, calls = missing(user="0")
    assert code == 0 and said.startswith("installing: gcc ") and installs(calls), (said, calls)


@pytest.mark.parametrize("terminal", [True, False])
def test_sudo_without_a_password_installs(missing, terminal):
    code, said, calls = missing(sudo="free", terminal=terminal)
    assert code == 0 and installs(calls, before=["sudo"]), (said, calls)


def test_sudo_asks_on_a_terminal(missing):
    code, said, calls = missing(sudo="password", terminal=True)
    assert code == 0 and "password" in said, said
    assert installs(calls, before=["asked", "sudo"]), calls


@pytest.mark.parametrize("sudo, terminal", [
    ("none", False), ("none", True), ("password", False), ("refuses", True)])
def test_otherwise_the_whole_command_is_printed(missing, sudo, terminal):
    code, said, calls = missing(sudo=sudo, terminal=terminal)
    assert code == 3 and calls == [], (said, calls)
    assert "error: packages are missing: gcc " in said
    if sudo == "none":
        assert "hint: as root: apt-get update && apt-get install -y --no-install" in said
    else:
        assert "hint: sudo apt-get update && sudo apt-get install -y --no-install" in said
