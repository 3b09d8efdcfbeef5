"""A small file system for a test, which can really become full."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

AS_ROOT = ["-m"] if os.geteuid() == 0 else ["-m", "--map-root-user"]
ENTER = ["-m"] if os.geteuid() == 0 else ["-m", "-U", "--preserve-credentials"]
MOUNT = "mount -t tmpfs -o size=$1,mode=755 none \"$2\" && echo ready && exec cat"
RESIZE = """
import ctypes, os, sys
MS_REMOUNT = 32  # mount(8) would repeat a user of the outer namespace, whom the inner lacks
place, size = sys.argv[1:]
if size.startswith("+"):
    disk = os.statvfs(place)
    size = str((disk.f_blocks - disk.f_bfree) * disk.f_frsize + int(size))
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"none", place.encode(), None, MS_REMOUNT, f"size={size}".encode()) != 0:
    sys.exit(f"cannot resize {place}: {os.strerror(ctypes.get_errno())}")
"""


def why_not():
    """Why no such file system can be mounted here, or None."""
    for name in ("unshare", "nsenter", "mount"):
        if shutil.which(name) is None:
            return f"needs {name}: package {'mount' if name == 'mount' else 'util-linux'}"
    words = ["unshare", *AS_ROOT, "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return (f"needs a mount namespace, not given here ({said}): for root, or for users where "
            "they may have user namespaces (sysctl user.max_user_namespaces)")


WHY_NOT = why_not()
needs_small_disk = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


class Disk:
    """A tmpfs at `place` with a copy of its content, visible to commands run after `before`."""

    def __init__(self, place, size):
        self.place = pathlib.Path(place)
        self.place.mkdir(parents=True, exist_ok=True)
        kept = self.place.with_name(self.place.name + ".kept")
        shutil.copytree(self.place, kept, symlinks=True)
        words = ["unshare", *AS_ROOT, "sh", "-c", MOUNT, "sh", size, str(self.place)]
        self.holder = subprocess.Popen(words, text=True, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == "ready\n"
        self.before = [shutil.which("nsenter"), "-t", str(self.holder.pid), *ENTER, "--"]
        self.inside = pathlib.Path(f"/proc/{self.holder.pid}/root{self.place}")
        self.run("cp", "-a", f"{kept}/.", str(self.place))

    def run(self, *words):
        subprocess.run([*self.before, *words], check=True)

    def resizing(self, size):
        """The shell command that mounts it; size: "8g", or "+N" for N free bytes."""
        script = self.place.with_name("resize.py")
        script.write_text(RESIZE)
        return f"{sys.executable} -I {script} {self.place} {size}"

    def filling(self, free_bytes):
        return self.resizing(f"+{free_bytes}")

    def fill(self):
        self.run("sh", "-c", self.filling(0))

    def grow(self, size):
        self.run("sh", "-c", self.resizing(size))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.holder.communicate("")
