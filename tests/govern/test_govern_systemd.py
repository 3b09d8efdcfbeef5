"""The governor under a real systemd: its scope and how it ends. Skipped without systemd."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from govern_project import SANITIZED, Project, processes_of, result_of, wait_for_none

MANAGER = [] if os.geteuid() == 0 else ["--user"]
LIMIT_MIB = 200


def why_not():
    """Why no scope can be created here, as systemd-run says it; "" if one can."""
    name = f"--unit=anyflash-test-{os.getpid()}"
    command = ["systemd-run", *MANAGER, "--scope", "--quiet", "--collect", name, "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0:
        return " ".join(done.stderr.split())
    groups = pathlib.Path("/proc/self/cgroup").read_text()
    if ":memory:" in groups and MANAGER:
        return "the memory controller of version 1 is not handed down to users"
    if ":memory:" in groups:
        return "with version 1 root makes a group of its own"
    return "the wrappers themselves take more than the limit" if SANITIZED else ""


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT != "", reason=f"no scope of systemd: {WHY_NOT}")


def systemctl(*words):
    command = ["systemctl", *MANAGER, "--no-pager", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def scopes():
    return re.findall(r"anyflash-build-\d+\S*\.scope", systemctl("list-units", "--all"))


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.05)
    assert condition()


class Running:
    """A build in its scope, with compilers that never end; no process may survive it."""

    def __init__(self, folder):
        self.folder = folder
        self.project = Project(folder, [f"m5-s600-{i}" for i in range(3)])
        self.process = subprocess.Popen(
            self.project.command(LIMIT_MIB, 2),
            env=self.project.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.scope = f"anyflash-build-{self.process.pid}.scope"

    def __enter__(self):
        wait_for(lambda: sum(" compiler-wrapper " in command
                             for _, command in processes_of(self.folder)) >= 3)
        time.sleep(1)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def group(self):
        path = systemctl("show", "--property=ControlGroup", "--value", self.scope).strip()
        return pathlib.Path("/sys/fs/cgroup" + path)

    def check_nothing_left(self):
        wait_for_none(self.folder)
        wait_for(lambda: scopes() == [])


def test_the_scope_is_named_and_limited_and_holds_all_but_the_governor(tmp_path):
    with Running(tmp_path) as build:
        assert scopes() == [build.scope]
        group = build.group()
        assert int((group / "memory.max").read_text()) == LIMIT_MIB << 20
        assert int((group / "memory.oom.group").read_text()) == 0
        assert "anyflash build" in systemctl("show", "--property=Description", build.scope)
        inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        wanted = {pid for pid, _ in processes_of(tmp_path)} - {build.process.pid}
        assert wanted and wanted <= inside
        assert build.process.pid not in inside
        build.process.send_signal(signal.SIGTERM)
        first = build.process.stdout.read().splitlines()[0]
        assert first.startswith("remark the build runs in a systemd scope, limited to 0.2")
        build.check_nothing_left()


@pytest.mark.parametrize("how", (signal.SIGINT, signal.SIGKILL), ids=lambda how: how.name)
def test_the_scope_ends_with_the_governor(tmp_path, how):
    with Running(tmp_path) as build:
        build.process.send_signal(how)
        build.process.wait(timeout=60)
        build.check_nothing_left()


def test_the_scope_ends_when_the_build_in_it_is_killed(tmp_path):
    with Running(tmp_path) as build:
        (ninja,) = [p for p, c in processes_of(tmp_path) if re.match(r"\S*ninja ", c)]
        os.kill(ninja, signal.SIGKILL)
        assert build.process.wait(timeout=60) == 128 + signal.SIGKILL
        build.check_nothing_left()


def test_a_stopped_scope_ends_the_build_and_the_next_one_goes_on(tmp_path):
    with Running(tmp_path) as build:
        systemctl("stop", build.scope)
        assert build.process.wait(timeout=60) != 0
        build.check_nothing_left()


def in_scope(project, *words):
    """Runs a governor with the build command `words`."""
    command = project.command(LIMIT_MIB, 2)
    command[command.index(str(project.folder / "output")) + 1 :] = words
    return subprocess.run(command, env=project.environment, capture_output=True, text=True)


def test_the_scope_goes_on_when_one_of_it_is_killed_for_memory(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a"])
    eat = f"head -c {2 * LIMIT_MIB}M /dev/zero | tail >/dev/null; echo ended: $?; sleep 2"
    ninja = project.command(LIMIT_MIB, 2)[6:]
    done = in_scope(project, "sh", "-c", f'{eat}; exec "$@"', "sh", *ninja)
    assert done.returncode == 0, done
    assert "ended: 137" in (tmp_path / "output").read_text()  # killed by the kernel
    project.check_complete()
    wait_for(lambda: scopes() == [])


def test_right_predictions_stay_within_the_scope(tmp_path):
    project = Project(tmp_path, [f"m{40 + 10 * i}-s0.3-{i}" for i in range(4)])
    code, lines = project.run(LIMIT_MIB, 4)
    assert code == 0, lines
    assert result_of(lines)["killed"] == 0
    project.check_complete()


def test_words_with_a_dollar_arrive_as_they_are(tmp_path):
    words = ["$HOME", "a${HOME}b", "$$", "%n"]
    project = Project(tmp_path, ["m5-s0.1-a"])
    done = in_scope(project, "sh", "-c", 'printf "%s\\n" "$@"', "sh", *words)
    assert done.returncode == 0, done
    output = (tmp_path / "output").read_text()
    assert output.splitlines()[-4:] == words
    assert "Scope command line" not in output  # systemd's warning


@pytest.mark.skipif(not MANAGER, reason="root's manager needs no bus")
def test_without_a_bus_it_builds_and_tells_systemds_words(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a"])
    project.environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    project.environment["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={tmp_path}/none"
    code, lines = project.run(LIMIT_MIB, 2)
    assert code == 0, lines
    assert "no control group of its own" in lines[0]
    assert re.search(r"systemd-run: Failed to .*bus", lines[0]), lines[0]
    project.check_complete()
