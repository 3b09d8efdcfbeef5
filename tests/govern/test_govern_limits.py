"""The governor when memory is short, predictions are wrong, and compilers misbehave."""

import os
import signal
import subprocess
import sys
import time

import pytest
from govern_project import (
    COMPILER,
    MEMORY,
    Group,
    Project,
    failed,
    processes_of,
    result_of,
    small,
    wait_for_none,
    wait_until,
)

def lines_of(lines, word):
    return [line for line in lines if line.startswith(word + " ")]


@small
def test_wrong_predictions_cost_one_kill_each_at_most(tmp_path):
    with Group(260) as group:
        project = Project(tmp_path, [f"m{100 + i}-s0.6-{i}" for i in range(6)])
        code, lines = project.run(0, 4, 0.2, preexec_fn=group.enter)
        assert code == 0, lines
        killed = [line.split()[1] for line in lines_of(lines, "killed")]
        assert killed  # the prediction really was wrong
        assert len(killed) == len(set(killed)) <= 6, killed
        project.check_complete()
        wait_for_none(tmp_path)


@small
def test_a_kind_whose_prediction_was_wrong_is_known_to_those_that_wait(tmp_path):
    with Group(260) as group:
        project = Project(tmp_path, [f"m100-s0.4-{i}" for i in range(12)])
        code, lines = project.run(0, 4, 0.2, preexec_fn=group.enter)
        assert code == 0, lines
        assert len(lines_of(lines, "killed")) <= 4  # those that ran already
        project.check_complete()


@small
def test_a_compiler_that_hides_that_it_was_killed_is_repeated(tmp_path):
    killed = []
    for attempt in range(5):  # on a busy machine the two may not overlap
        with Group(260) as group:
            folder = tmp_path / str(attempt)
            folder.mkdir()
            project = Project(folder, [f"m150-s0.6-hidden{i}" for i in range(2)])
            code, lines = project.run(0, 2, 0.2, preexec_fn=group.enter)
            assert code == 0, lines
            killed = lines_of(lines, "killed")
            project.check_complete()
        if killed:
            break
    assert len(killed) == 1


@small
def test_a_limit_lowered_while_running_holds(tmp_path):
    with Group(600) as group:
        project = Project(tmp_path, [f"m60-s0.4-{i}" for i in range(24)])
        with subprocess.Popen(
            project.command(0, 8),
            env=project.environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=group.enter,
        ) as build:
            time.sleep(1)
            group.lower(220)
            lines = build.stdout.read().splitlines()
        assert build.returncode == 0, lines
        assert group.kills() == 0
        project.check_complete()


@small
def test_slow_growers_run_one_after_the_other_and_none_is_killed(tmp_path):
    """350 MiB each with a limit of 600."""
    with Group(600) as group:
        project = Project(tmp_path, [f"m350-s2-grow{i}" for i in range(2)])
        code, lines = project.run(0, 2, preexec_fn=group.enter)
        assert code == 0, lines
        for word in ("killed", "standstill"):
            assert not lines_of(lines, word)
        assert group.kills() == 0
        project.check_complete()


@small
def test_standing_still_stops_the_youngest_and_it_is_repeated(tmp_path):
    with Group(260, kills=False) as group:
        project = Project(tmp_path, [f"m150-s1.5-grow{i}" for i in range(2)])
        project.environment["GOVERN_STILL"] = "2"
        code, lines = project.run(0, 2, 0.2, preexec_fn=group.enter)
        result = result_of(lines)
        assert code == 0, lines
        assert (result["killed"], group.kills()) == (0, 0)
        assert 1 <= len(lines_of(lines, "standstill")) <= 2  # from then on it runs alone
        project.check_complete()


@small
def test_the_last_is_never_stopped_and_it_is_said_why_it_waits(tmp_path):
    with Group(120, kills=False) as group:
        project = Project(tmp_path, ["m180-s0.5-large"])
        project.environment.update(GOVERN_STILL="1", GOVERN_HANG="3")
        with subprocess.Popen(
            project.command(0, 2),
            env=project.environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=group.enter,
        ) as build:
            lines = []
            while not lines or "makes no progress" not in lines[-1]:
                lines.append(next(build.stdout))
            assert build.poll() is None
            assert "Nothing else runs" in lines[-1]
            assert group.limit(400)
            lines += build.stdout
        assert build.returncode == 0, lines
        assert sum("makes no progress" in line for line in lines) == 1
        for word in ("standstill", "hung", "killed"):
            assert not lines_of(lines, word)
        project.check_complete()


def test_a_compiler_that_hangs_once_is_repeated(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-hangonce", "m5-s0.2-a"])
    project.environment["GOVERN_HANG"] = "2"
    code, lines = project.run(MEMORY, 4)
    assert code == 0, lines
    assert len(lines_of(lines, "hung")) == 1
    assert any("no processor" in line for line in lines_of(lines, "remark")), lines
    project.check_complete()


def test_a_compiler_that_hangs_again_fails_with_its_cause(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-hang", "m5-s0.2-a"])
    project.environment["GOVERN_HANG"] = "1"
    code, lines = project.run(MEMORY, 4)
    assert failed(code)
    result = result_of(lines)
    assert (result["failed"], result["crashed"], result["ended"]) == (1, 2, 1)
    assert "error: m5-s0.1-hang.src hangs" in (tmp_path / "output").read_text()
    wait_for_none(tmp_path)


def kill_group_of(pid):
    try:
        group = os.getpgid(pid)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return pid
    return group


def strike(project, times):
    """Kills the compiler of the file "large" `times` times; the build's exit code and lines."""
    with subprocess.Popen(
        project.command(MEMORY, 4),
        env=project.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as build:
        struck = set()
        while len(struck) < times and build.poll() is None:
            for pid, command in processes_of(project.folder):
                if command.startswith(COMPILER) and "-large" in command:
                    struck.add(kill_group_of(pid))
            time.sleep(0.05)
        lines = build.stdout.read().splitlines()
    return build.returncode, lines


def test_a_compiler_that_somebody_kills_is_repeated_beside_the_others(tmp_path):
    """Memory is then well used but not short, so it need not wait until it can run alone."""
    project = Project(tmp_path, ["m60-s1.2-large", *(f"m20-s0.9-{i}" for i in range(8))])
    code, lines = strike(project, 3)
    assert code == 0, lines
    assert len(lines_of(lines, "crashed")) >= 1
    assert not lines_of(lines, "killed")
    project.check_complete()


def test_a_compiler_that_is_killed_again_and_again_is_named(tmp_path):
    project = Project(tmp_path, ["m60-s9-large", "m5-s0.1-a"])
    code, lines = strike(project, 100)
    assert failed(code), lines
    assert len(lines_of(lines, "crashed")) == 3
    output = (tmp_path / "output").read_text()
    assert "m60-s9-large.src was killed by signal 9, 4 times" in output
    assert [path.name for path in tmp_path.glob("*.o")] == ["m5-s0.1-a.o"]
    wait_for_none(tmp_path)


def test_a_compiler_that_crashes_is_repeated_once_then_named(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-crash", "m5-s0.1-crashonce"])
    code, lines = project.run(MEMORY, 1)
    assert failed(code)
    assert len(lines_of(lines, "crashed")) >= 1
    assert "m5-s0.1-crash.src was killed by signal 11" in (tmp_path / "output").read_text()


def detached(folder):
    """Command lines of a compiler that detaches: itself and its children."""
    return [command for _, command in processes_of(folder)
            if command.startswith(COMPILER) and "-detach" in command]


def test_what_detaches_ends_with_its_compiler(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-detach", "m5-s4-b"])
    build = subprocess.Popen(
        project.command(MEMORY, 2), env=project.environment, stdout=subprocess.DEVNULL
    )
    wait_until(project.finished)
    wait_until(lambda: not detached(tmp_path))
    assert build.poll() is None
    assert build.wait(timeout=60) == 0
    project.check_complete()


@pytest.mark.parametrize("how", (signal.SIGTERM, signal.SIGKILL), ids=lambda how: how.name)
def test_what_detaches_ends_with_a_governor_that_is_ended(tmp_path, how):
    project = Project(tmp_path, ["m5-s60-detach", "m5-s60-b"])
    build = subprocess.Popen(
        project.command(MEMORY, 2),
        env=project.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: len(detached(tmp_path)) >= 3)
    build.send_signal(how)
    build.wait(timeout=60)
    wait_for_none(tmp_path)


def stand_in(folder, body):
    """A systemd-run that logs its arguments and then runs `body`."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "systemd-run"
    path.write_text(f'#!/bin/sh\necho "$*" >>"{folder}/asked"\n{body}\n')
    path.chmod(0o755)
    return f"{folder}/bin:{os.environ['PATH']}"


RUN_IT = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
# The command reads the limit of the scope, which is not created here.
LIMITED = 'case "$*" in *-try*) echo 2147483648; exit 0;; esac; ' + RUN_IT


def in_no_group(project, folder, body):
    """An environment where no control group can be created, but a user manager exists."""
    (folder / "root").mkdir()
    project.environment.update(
        GOVERN_ROOT=str(folder / "root"),
        XDG_RUNTIME_DIR=str(folder),
        PATH=stand_in(folder, body),
    )


def test_a_scope_of_systemd_stands_in_for_a_group(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a", "m5-s0.1-b"])
    in_no_group(project, tmp_path, LIMITED)
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert "remark the build runs in a systemd scope, limited to 2.0 GiB" in lines[0]
    tried, ran = (tmp_path / "asked").read_text().splitlines()
    for asked in (tried, ran):
        for word in ("--scope", "MemoryMax=2147483648", "OOMPolicy=continue"):
            assert word in asked
        assert ("--user" in asked) == (os.geteuid() != 0)  # root uses the system manager
    assert "govern_try" in ran
    project.check_complete()


def test_an_older_systemd_is_asked_for_less(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a"])
    refuse = 'case "$*" in *OOMPolicy*) exit 1;; esac; '
    refuse = refuse.replace("exit 1", "echo Unknown assignment >&2; exit 1")
    in_no_group(project, tmp_path, refuse + LIMITED)
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert "systemd scope" in lines[0]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 4
    assert "OOMPolicy" not in asked[-1]


def test_a_scope_that_does_not_limit_is_not_said_to_limit(tmp_path):
    """With cgroup v1 a user manager has no memory controller."""
    project = Project(tmp_path, ["m5-s0.1-a"])
    in_no_group(project, tmp_path, LIMITED.replace("2147483648", "9223372036854771712"))
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert "in a systemd scope, which does not limit its memory" in lines[0]


@pytest.mark.parametrize("body", ("exit 1", "exit 127", "kill -9 $$"))
def test_without_group_and_scope_it_builds_and_says_so(tmp_path, body):
    project = Project(tmp_path, ["m5-s0.1-a"])
    in_no_group(project, tmp_path, body)
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert "has no control group of its own" in lines[0]
    project.check_complete()


def test_the_words_of_a_systemd_that_refuses_are_told(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a"])
    words = r"No\033[2J bus\n\n"
    in_no_group(project, tmp_path, f"printf 'more\n{words}' >&2; exit 1")
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert r"systemd-run: No\x1b[2J bus)" in lines[0], lines[0]
    project.check_complete()


def test_a_systemd_that_does_not_answer_is_asked_once(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a"])
    in_no_group(project, tmp_path, "exec sleep 60")
    code, lines = project.run(2048, 2)
    assert code == 0, lines
    assert "systemd-run: 'systemd-run' took too long" in lines[0]
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@small
def test_a_group_of_its_own_is_said(tmp_path):
    with Group(4096) as group:
        project = Project(tmp_path, ["m5-s0.1-a"])
        code, lines = project.run(2048, 2, preexec_fn=group.enter)
        assert code == 0
        assert "in a control group of its own, limited to 2.0 GiB" in lines[0]


def test_less_runs_while_others_work(tmp_path):
    """When processes of normal priority use all cores, one compiler runs at a time."""
    project = Project(tmp_path, [f"m5-s1-{i}" for i in range(6)])
    cores = len(os.sched_getaffinity(0))
    if cores > 2:
        pytest.skip("needs at most two cores, as by taskset -c 0,1: all are kept busy")
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)
    ]
    try:
        if os.getpriority(os.PRIO_PROCESS, busy[0].pid) > 0:
            pytest.skip("needs a shell that is not nice: others could not be told from "
                        "the build")
        code, lines = project.run(MEMORY, 0)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert code == 0
    running = most = 0
    for line in lines[-8:]:  # the last ones, because it takes seconds to be sure
        running += line.startswith("started") - line.startswith("ended")
        most = max(most, running)
    assert most <= 1, lines
