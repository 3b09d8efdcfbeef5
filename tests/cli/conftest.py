"""Runs the built program, whose path is in $ANYFLASH, in a clean environment."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

PROGRAM = os.environ.get("ANYFLASH", "anyflash")


class Answer:
    """What one run gave: exit code, stdout and stderr as text."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout.decode("utf-8", "surrogateescape")
        self.err = done.stderr.decode("utf-8", "surrogateescape")

    def __repr__(self):
        return f"exit {self.code}\nstdout:\n{self.out}\nstderr:\n{self.err}"


@pytest.fixture
def anyflash(tmp_path):
    """anyflash("plan", "--json", env={...}) runs the program in an empty folder. Each JSON
    answer is checked against its schema."""
    home = tmp_path / "home"
    home.mkdir()

    def run(*words, env=None, **options):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TERM": "xterm"}
        environment.update(env or {})
        options.setdefault("cwd", tmp_path)
        done = subprocess.run([PROGRAM, *words], env=environment, capture_output=True,
                              timeout=60, **options)
        answer = Answer(done)
        schemas.check(answer.out)
        return answer
    run.program = PROGRAM
    return run


@pytest.fixture
def in_a_mount(tmp_path):
    """in_a_mount(script) runs a shell script in the test's folder, with the program as $1, as
    the root of a namespace, where it may mount."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("this kernel allows no user namespace, in which a test may mount")

    def run(script):
        return subprocess.run(["unshare", "-rm", "sh", "-euc", script, "sh", PROGRAM],
                              cwd=tmp_path, capture_output=True, text=True)
    return run


def is_wide(line, columns=96):
    """Whether a line is longer than it need be. URLs, paths, commands in backquotes and
    commands for Windows are never wrapped, because people copy them."""
    copied = line.lstrip().startswith("C:\\") or "`" in line
    return len(line) > columns and not copied and max(map(len, line.split())) <= 50
