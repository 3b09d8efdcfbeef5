"""Synthetic builds with one thing wrong: runs them and returns what they print."""

import hashlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import synthetic
from full_disk import AS_ROOT

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "net"))
from server import File, Server  # noqa: E402, F401

BASE_TOOLS = ("sh", "basename", "cat", "cp", "curl", "echo", "env", "fallocate", "grep", "gzip",
              "head", "kill", "mkdir", "rm", "sleep", "tar", "touch")
SELECTION = ("--head-dim", "128", "--dtype", "bf16", "--features", "none", "--jobs", "8")
TOP = f"flash_attn-{synthetic.VERSION}"


def find_uv():
    """The real uv; a version manager's shim would need that manager's variables."""
    found = shutil.which("uv")
    if found is None or pathlib.Path(found).read_bytes()[:4] == b"\x7fELF":
        return found
    done = subprocess.run(["pyenv", "which", "uv"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


UV = find_uv()


class Said:
    """Exit code and texts of a run, and the files that it compiled."""

    def __init__(self, code, out, err, compiled):
        self.code, self.out, self.err, self.compiled = code, out, err, sorted(compiled)

    def __repr__(self):
        return f"exit {self.code}\n{self.out}\n{self.err}\ncompiled: {self.compiled}"


class World(synthetic.World):
    """The synthetic world, without this system's compilers on PATH."""

    def __init__(self, folder):
        super().__init__(folder)
        self.tools = folder / "tools"
        self.tools.mkdir()
        for name in BASE_TOOLS:
            found = shutil.which(name)
            if found:
                (self.tools / name).symlink_to(found)
        self.sources = folder / "cache" / "build" / "sources"
        self.archive = self.sources / f"{TOP}.tar.gz"

    def environment(self, **more):
        return super().environment(self.tools, **more)

    def start(self, *options, before=(), more=None, offline=True):
        self.compiled_log.write_text("")
        words = [*before, os.environ["ANYFLASH"], "build", "--arch", "90",
                 *(["--offline"] if offline else []), *options]
        return subprocess.Popen(words, env=self.environment(**(more or {})), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def said(self, process, seconds=60):
        out, err = process.communicate(timeout=seconds)
        synthetic.schemas.check(out)
        compiled = [name for name in self.compiled_log.read_text().split() if name]
        return Said(process.returncode, out, err, compiled)

    def run(self, *options, **keywords):
        return self.said(self.start(*(options or SELECTION), **keywords))

    def mounted(self, mount, *options):
        """A run after the shell command `mount`, in a mount namespace of its own."""
        before = [shutil.which("unshare"), *AS_ROOT, shutil.which("sh"), "-c",
                  f"PATH=/usr/sbin:/usr/bin:/sbin:/bin; export PATH; {mount} && "
                  f"PATH={self.folder}/bin:{self.tools} exec \"$@\"", "sh"]
        return self.run(*options, before=before)

    def replace(self, name, text):
        """Puts a program of this name before all others on PATH."""
        path = self.folder / "bin" / name
        synthetic.write(path, text, 0o755)
        return path

    def compiler(self, before):
        """An nvcc that first runs the shell fragment `before`, with $source and $object."""
        text = synthetic.COMPILER
        marker = "[ -n \"$object\" ]"
        assert marker in text
        synthetic.write(self.cuda / "bin" / "nvcc",
                        text.replace(marker, f"{before}\n{marker}", 1), 0o755)

    def pack(self, members, top=TOP):
        """A source archive with these members, (name, text) or a TarInfo, and its hash."""
        with tarfile.open(self.archive, "w:gz") as out:
            for member in members:
                if isinstance(member, tarfile.TarInfo):
                    out.addfile(member, io.BytesIO(b"x" * member.size))
                    continue
                info = tarfile.TarInfo(f"{top}/{member[0]}" if top else member[0])
                info.size = len(member[1])
                out.addfile(info, io.BytesIO(member[1].encode()))
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        self.lock(digest)

    def lock(self, digest, url="https://x.invalid/a"):
        (self.sources / "pylock.flash-attn.toml").write_text(
            f'[[packages]]\nname = "flash-attn"\nsdist = {{ url = "{url}", '
            f'hashes = {{ sha256 = "{digest}" }} }}\n')

    def left_over(self):
        """Folders left by a failed unpacking, and files written outside of it."""
        root = self.folder / "cache" / "build"
        places = [*root.glob("*/flash-attn*"), *root.glob("*/temporary/*"),
                  *self.folder.glob("evil*"), *root.glob("evil*"), *root.glob("*/evil*")]
        return [str(path) for path in places]


def interrupt_when(world, process, wanted, number=signal.SIGINT, seconds=30):
    """Sends the signal when the log of compiled files has `wanted` lines and no longer grows,
    because a compiler writes its line before it ends."""
    end = time.monotonic() + seconds
    seen, since = -1, time.monotonic()
    while time.monotonic() < end and process.poll() is None:
        count = len(pathlib.Path(world.compiled_log).read_text().split())
        if count != seen:
            seen, since = count, time.monotonic()
        elif count >= wanted and time.monotonic() - since > 0.5:
            process.send_signal(number)
            return True
        time.sleep(0.02)
    return False
