"""The governor on builds with synthetic compilers."""

import os
import random
import signal
import subprocess
import time

import pytest
from govern_project import (
    COMPILER,
    MEMORY,
    ROUNDS,
    SHARE,
    TRY,
    Project,
    failed,
    mixed,
    processes_of,
    result_of,
    small,
    wait_for_none,
)


def test_every_object_once_within_the_memory(tmp_path):
    project = Project(tmp_path, mixed(60))
    code, lines = project.run(MEMORY, 6)
    result = result_of(lines)
    assert (code, result["ended"], result["killed"]) == (0, 60, 0)
    assert result["most"] <= SHARE + 8  # the rest is for the governor itself
    project.check_complete()
    wait_for_none(tmp_path)


@small
def test_one_larger_than_its_share_runs_alone(tmp_path):
    project = Project(tmp_path, ["m12-s0.2-a", "m180-s0.2-b", "m12-s0.2-c"])
    code, lines = project.run(MEMORY, 4)
    assert code == 0
    project.check_complete()
    large = [i for i, line in enumerate(lines) if "m180" in line]
    assert large[1] == large[0] + 1, lines  # it ended before the next one started


def test_a_compiler_that_fails_ends_the_build_and_keeps_the_rest(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a", "m5-s0.3-fail", "m5-s0.1-b"])
    code, lines = project.run(MEMORY, 4)
    assert failed(code)
    assert result_of(lines)["failed"] == 1
    assert not (tmp_path / "m5-s0.3-fail.o").exists()
    assert len(project.finished()) == 2
    wait_for_none(tmp_path)


def test_a_failed_compiler_keeps_what_it_printed(tmp_path):
    project = Project(tmp_path, ["nothing", "m5-s0.1-a"])  # the first has no size in its name
    code, _ = project.run(MEMORY, 4)
    assert failed(code)
    assert (tmp_path / "nothing.o.out").exists() and not (tmp_path / "m5-s0.1-a.o.out").exists()
    assert "output of nothing.src" in (tmp_path / "output").read_text()


def interrupt(project, random_of):
    """Starts a build and sends a signal to it or a compiler at a random time."""
    build = subprocess.Popen(
        project.command(MEMORY, 4),
        env=project.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(random_of.uniform(0.05, 1.2))
    start = random_of.choice((TRY, COMPILER))
    found = [pid for pid, command in processes_of(project.folder) if command.startswith(start)]
    if found:
        how = random_of.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        try:
            os.kill(random_of.choice(found), how)
        except ProcessLookupError:
            pass
    return build.wait(timeout=60)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_interrupted_builds_go_on(tmp_path, seed):
    random_of = random.Random(seed)
    project = Project(tmp_path, mixed(24, seed))
    written = {}
    for _ in range(3):
        interrupt(project, random_of)
        wait_for_none(tmp_path)
        written.update(project.ended())
    code, lines = project.run(MEMORY, 4)
    assert code == 0, lines
    project.check_complete(once=False)
    for path, when in written.items():
        assert path.stat().st_mtime_ns == when, f"{path.name} was compiled twice"
    wait_for_none(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]
