"""Builds with synthetic compilers under the governor."""

import os
import pathlib
import random
import subprocess
import time

import pytest

TRY = os.environ["GOVERN_TRY"]
COMPILER = os.environ["GOVERN_COMPILER"]
ROUNDS = int(os.environ.get("GOVERN_ROUNDS", "6"))
# With a sanitizer the governor itself takes more than a tight limit leaves.
SANITIZED = os.environ.get("GOVERN_SANITIZED", "") not in ("", "0", "OFF")
MEMORY, SHARE = 192, 128
small = pytest.mark.skipif(SANITIZED, reason="the sanitized governor takes more than the limit")


class Project:
    """A folder with synthetic source files."""

    def __init__(self, folder, files):
        self.folder = folder
        self.files = files
        self.log = folder / "finished"
        (folder / "src").mkdir()
        for name in files:
            (folder / "src" / f"{name}.src").write_text("")
        self.environment = {
            **os.environ,
            "COMPILER_LOG": str(self.log),
            "TMPDIR": str(folder),
        }

    def command(self, memory, slots, factor=1.0):
        sources = [str(self.folder / "src" / f"{name}.src") for name in self.files]
        output = str(self.folder / "output")
        return [TRY, str(memory), str(slots), str(factor), output, COMPILER, *sources]

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
        written = [pathlib.Path(path).name.removesuffix(".new") for path in self.finished()]
        assert sorted(written if once else set(written)) == names
        for name in names:
            assert (self.folder / name).read_text() == "object\n"

    def ended(self):
        """Write times of the finished objects."""
        return {path: path.stat().st_mtime_ns for path in self.folder.glob("*.o")}


def failed(code):
    return code == 1  # 2 and 3 are errors of govern_try


def result_of(lines):
    words = lines[-1].split()
    assert words[0] == "result", lines
    return dict(zip(words[1::2], (int(word) for word in words[2::2])))


def processes_of(folder):
    """Command lines of running processes that contain the folder's name."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in command and int(entry.name) != os.getpid():
            found.append((int(entry.name), command.replace(b"\0", b" ").decode()))
    return found


def wait_until(condition, seconds=20):
    """Waits for a condition that a busy machine may reach late."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def wait_for_none(folder):
    wait_until(lambda: not processes_of(folder))


def mixed(count, seed=1):
    random_of = random.Random(seed)
    sizes = (12, 30, 60)
    return [
        f"m{random_of.choice(sizes)}-s{random_of.randint(5, 40) / 100}-{number}"
        for number in range(count)
    ]


class Group:
    """A cgroup v1 with a memory limit; skips the test if none can be created."""

    def __init__(self, limit_mib, kills=True):
        top = pathlib.Path("/sys/fs/cgroup/memory")
        self.folder = top / f"anyflash-test-{os.getpid()}-{time.monotonic_ns()}"
        try:
            self.folder.mkdir()
        except OSError:
            pytest.skip("needs root and control groups of version 1 at /sys/fs/cgroup/memory")
        self.limit(limit_mib)
        if not kills:
            (self.folder / "memory.oom_control").write_text("1")

    def limit(self, mib):
        """Sets the limit. False if more memory is in use, because the kernel then refuses."""
        try:
            (self.folder / "memory.limit_in_bytes").write_text(str(mib << 20))
        except OSError:
            return False
        return True

    def lower(self, mib):
        """Lowers the limit step by step as memory is freed: cgroup v1 does not kill for it."""
        while not self.limit(mib):
            used = int((self.folder / "memory.usage_in_bytes").read_text()) >> 20
            self.limit(max(mib, used + 4))
            time.sleep(0.02)

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self):
        """Kills counted by the kernel, including those in the build's own group."""
        total = 0
        for path in self.folder.rglob("memory.oom_control"):
            total += int(path.read_text().split("oom_kill ")[1])
        return total

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.limit(1 << 20)  # stopped processes continue
        for _ in range(200):
            texts = [path.read_text() for path in self.folder.rglob("cgroup.procs")]
            listed = " ".join(texts).split()
            if not listed:
                break
            for pid in listed:
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        for path in [*self.folder.glob("anyflash-build-*"), self.folder]:
            path.rmdir()
