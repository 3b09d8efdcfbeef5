"""What a build shows on a terminal: no line is too wide, and progress stays on one line."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from bad_world import SELECTION, World

COLUMNS = 64


@pytest.fixture(name="world")
def make_world(tmp_path):
    return World(tmp_path)


def on_terminal(world, *options):
    """What the program prints on a terminal of COLUMNS columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    world.compiled_log.write_text("")
    words = [os.environ["ANYFLASH"], "build", "--arch", "90", "--offline", *options]
    with subprocess.Popen(words, env=world.environment(TERM="xterm"), stdin=theirs,
                          stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65536)
            except OSError:  # how Linux reports that the other end of a terminal was closed
                break
        assert process.wait(timeout=60) == 0, said
    os.close(ours)
    return said.decode()


def columns_of(line):
    return len(re.sub("\x1b\\[[0-9;]*[mK]", "", line))


def test_progress_is_one_line_that_is_written_over(world):
    world.compiler("sleep 0.7")
    said = on_terminal(world, *SELECTION[:6], "--jobs", "1")
    shown = [line for line in re.split("[\r\n]+", said) if " running, " in line]
    assert shown and max(map(columns_of, shown)) < COLUMNS, shown
    assert not re.search(r" running, [^\r]*\n", said), "progress is no line that stays"


def test_the_estimate_fits_into_the_terminal(world):
    said = on_terminal(world, *SELECTION, "--dry-run")
    lines = said.splitlines()
    assert any("takes" in line for line in lines)
    assert max(columns_of(line) for line in lines if str(world.folder) not in line) <= COLUMNS
