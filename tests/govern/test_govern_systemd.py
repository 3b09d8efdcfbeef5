"""The governor under a real systemd: its scope and how it ends. Skipped without systemd."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from govern_project import COMPILER, SANITIZED, Project, processes_of, result_of, wait_for_none

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
    return "the sanitized governor takes more than the limit" if SANITIZED else ""


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
        wait_for(lambda: sum(command.startswith(COMPILER)
                             for _, command in processes_of(self.folder)) >= 2)
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


def test_the_scope_is_named_and_limited_and_holds_all(tmp_path):
    with Running(tmp_path) as build:
        assert scopes() == [build.scope]
        group = build.group()
        assert int((group / "memory.max").read_text()) == LIMIT_MIB << 20
        assert int((group / "memory.oom.group").read_text()) == 0
        assert "anyflash build" in systemctl("show", "--property=Description", build.scope)
        inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        wanted = {pid for pid, _ in processes_of(tmp_path)}
        assert build.process.pid in wanted and wanted <= inside
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


def test_a_stopped_scope_ends_the_build_and_the_next_one_goes_on(tmp_path):
    with Running(tmp_path) as build:
        systemctl("stop", build.scope)
        assert build.process.wait(timeout=60) != 0
        build.check_nothing_left()


def test_the_scope_goes_on_when_one_of_it_is_killed_for_memory(tmp_path):
    project = Project(tmp_path, [f"m{2 * LIMIT_MIB}-s0.1-large", "m5-s1-b"])
    code, lines = project.run(LIMIT_MIB, 2, 0.01)
    assert code == 1 and result_of(lines)["killed"] > 1, lines
    wait_for(lambda: scopes() == [])


def test_right_predictions_stay_within_the_scope(tmp_path):
    project = Project(tmp_path, [f"m{40 + 10 * i}-s0.3-{i}" for i in range(4)])
    code, lines = project.run(LIMIT_MIB, 4)
    assert code == 0, lines
    assert result_of(lines)["killed"] == 0
    project.check_complete()


def test_words_with_a_dollar_arrive_as_they_are(tmp_path):
    folder = tmp_path / "a${HOME}b $$ %n"
    folder.mkdir()
    project = Project(folder, ["m5-s0.1-a"])
    code, lines = project.run(LIMIT_MIB, 1)
    assert code == 0, lines
    project.check_complete()


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
