"""The governor over builds of synthetic compilers, run by real ninja."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

TRY = os.environ["GOVERN_TRY"]
COMPILER = os.environ["GOVERN_COMPILER"]
NINJA = shutil.which("ninja")
ROUNDS = int(os.environ.get("GOVERN_ROUNDS", "6"))
# A sanitizer makes each waiting gate so large that little is left below a tight limit.
SANITIZED = os.environ.get("GOVERN_SANITIZED", "") not in ("", "0", "OFF")
MEMORY, SHARE = (4096, 4096) if SANITIZED else (256, 128)
tight = pytest.mark.skipif(SANITIZED, reason="the gates themselves take more than the limit")


class Project:
    """A folder with a build.ninja of synthetic files."""

    def __init__(self, folder, files):
        self.folder = folder
        self.files = files
        self.log = folder / "finished"
        (folder / "src").mkdir()
        gate = folder / "gate"
        gate.write_text(f'#!/bin/sh\nexec "{TRY}" gate "{COMPILER}" "$@"\n')
        gate.chmod(0o755)
        rules = [f"rule cc\n  command = {gate} -c $in -o $out\n"]
        for name in files:
            source = folder / "src" / f"{name}.src"
            source.write_text("")
            rules.append(f"build {name}.o: cc {source}\n")
        (folder / "build.ninja").write_text("".join(rules))
        self.environment = {
            **os.environ,
            "ANYFLASH_STATE": str(folder / "state"),
            "COMPILER_LOG": str(self.log),
            "TMPDIR": str(folder),
        }

    def command(self, memory, slots, factor=1.0):
        jobs = ["-j", str(len(self.files)), "-k", "1"]
        return [
            *(TRY, "run", str(memory), str(slots), str(factor)),
            *(str(self.folder / "output"), NINJA, "-C", str(self.folder), *jobs),
        ]

    def run(self, *arguments, **options):
        """(exit code, lines)"""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )
        return done.returncode, done.stdout.splitlines()

    def finished(self):
        return self.log.read_text().split() if self.log.exists() else []

    def check_complete(self, once=True):
        names = sorted(f"{name}.o" for name in self.files)
        assert (sorted(self.finished()) if once else sorted(set(self.finished()))) == names
        for name in names:
            assert (self.folder / name).read_text() == "object\n"

    def ended(self):
        """When the objects were written whose compilers were seen to end well."""
        notes = self.folder.glob("*.o.done")
        kept = [path.with_name(path.name.replace(".done", ".kept")) for path in notes]
        return {path: path.stat().st_mtime_ns for path in kept}


def result_of(lines):
    words = lines[-1].split()
    assert words[0] == "result", lines
    return dict(zip(words[1::2], (int(word) for word in words[2::2])))


def processes_of(folder):
    """Commands of living processes that name the folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in command and int(entry.name) != os.getpid():
            found.append((int(entry.name), command.replace(b"\0", b" ").decode()))
    return found


def wait_for_none(folder, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end and processes_of(folder):
        time.sleep(0.02)
    assert processes_of(folder) == []


def mixed(count, seed=1):
    random_of = random.Random(seed)
    sizes = (12, 30, 60)
    return [
        f"m{random_of.choice(sizes)}-s{random_of.randint(5, 40) / 100}-{number}"
        for number in range(count)
    ]


def test_every_object_once_within_the_memory(tmp_path):
    project = Project(tmp_path, mixed(60))
    code, lines = project.run(MEMORY, 6)
    result = result_of(lines)
    assert (code, result["ended"], result["killed"]) == (0, 60, 0)
    assert result["most"] <= SHARE + 8  # the rest is for the build itself
    project.check_complete()
    wait_for_none(tmp_path)


@tight
def test_one_larger_than_its_share_runs_alone(tmp_path):
    project = Project(tmp_path, ["m12-s0.2-a", "m180-s0.2-b", "m12-s0.2-c"])
    code, lines = project.run(MEMORY, 4)
    assert code == 0
    project.check_complete()
    large = [i for i, line in enumerate(lines) if "m180" in line]
    assert large[1] == large[0] + 1, lines  # it ended before another began


def test_a_compiler_that_fails_ends_the_build_and_keeps_the_rest(tmp_path):
    project = Project(tmp_path, ["m5-s0.1-a", "m5-s0.3-fail", "m5-s0.1-b"])
    code, lines = project.run(MEMORY, 4)
    assert code == 1
    assert result_of(lines)["failed"] == 1
    assert not (tmp_path / "m5-s0.3-fail.o").exists()
    assert len(project.finished()) == 2
    wait_for_none(tmp_path)


@tight
def test_what_was_learned_corrects_what_is_predicted(tmp_path):
    project = Project(tmp_path, [f"m60-s0.3-{i}" for i in range(4)])
    project.run(MEMORY, 4, 0.1)
    for path in tmp_path.glob("*.o*"):
        path.unlink()
    code, lines = project.run(MEMORY, 4, 0.1)
    assert code == 0
    assert result_of(lines)["most"] <= 128 + 8
    running = most = 0
    for line in lines:
        running += line.startswith("started") - line.startswith("ended")
        most = max(most, running)
    assert most == 2, lines  # two of 60 MiB fit into 128, as was learned


def test_a_gate_without_its_governor_refuses(tmp_path):
    environment = {**os.environ, "ANYFLASH_GATE": "anyflash-gate-of-nobody"}
    for variables in (environment, {**os.environ}):
        done = subprocess.run(
            [TRY, "gate", COMPILER, "-c", "/m1-s0-x.src", "-o", str(tmp_path / "x.o")],
            env=variables,
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert done.returncode == 75
        assert "anyflash build" in done.stderr
        assert not (tmp_path / "x.o").exists()


def victims(folder, kind):
    """Processes of one kind: driver, ninja, gate, compiler."""
    marks = {
        "driver": lambda c: f"{TRY} run" in c,
        "ninja": lambda c: c.startswith(NINJA),
        "gate": lambda c: c.startswith(f"{TRY} gate"),
        "compiler": lambda c: c.startswith(COMPILER),
    }
    return [pid for pid, command in processes_of(folder) if marks[kind](command)]


def interrupt(project, random_of):
    """Starts a build and strikes one of its processes at a random time; its exit code."""
    build = subprocess.Popen(
        project.command(MEMORY, 4),
        env=project.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(random_of.uniform(0.05, 1.2))
    kind = random_of.choice(("driver", "ninja", "gate", "compiler"))
    found = victims(project.folder, kind)
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


def memory_group(limit_mib):
    """A control group of version 1 with this limit, or None where none may be made."""
    top = pathlib.Path("/sys/fs/cgroup/memory")
    group = top / f"anyflash-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_mib << 20))
    except OSError:
        return None
    return group


def test_wrong_predictions_cost_one_kill_each_at_most(tmp_path):
    group = memory_group(260)
    if group is None:
        pytest.skip("control groups of version 1 may not be made here")
    try:
        project = Project(tmp_path, [f"m{100 + i}-s0.6-{i}" for i in range(6)])
        code, lines = project.run(
            0, 4, 0.2, preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        )
        result = result_of(lines)
        assert code == 0, lines
        assert result["killed"] <= 6
        project.check_complete()
    finally:
        wait_for_none(tmp_path)
        group.rmdir()
