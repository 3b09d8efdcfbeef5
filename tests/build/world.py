"""A world for `anyflash build` without network, torch, CUDA or NVRTC.

NVRTC is fake_nvrtc.c, in a CUDA toolkit; the sources of flash-attn are a few small files, for
which the environment's Python (`python.py`) accepts another digest than the published one. All
else is real: the program, its scripts, tar.
"""

import hashlib
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "packaging"), str(ROOT / "packaging" / "kernels")]
import schemas  # noqa: E402

VERSION = "2.8.3.post2"
TOP = f"flash_attn-{VERSION}"
PKG_INFO = f"""Metadata-Version: 2.4
Name: flash_attn
Version: {VERSION}
Requires-Python: >=3.9
License-File: LICENSE
Requires-Dist: torch
Requires-Dist: einops
Dynamic: author

# FlashAttention
"""
FILES = {
    "LICENSE": "BSD", "AUTHORS": "somebody", "PKG-INFO": PKG_INFO, "hopper/__init__.py": "",
    "flash_attn/__init__.py": f"__version__ = '{VERSION}'\n",
    "flash_attn/modules/mha.py": "# modules\n", "flash_attn/py.typed": "",
    "csrc/flash_attn/src/flash.h": "", "csrc/flash_attn/flash_api.cpp": "",
    "csrc/cutlass/include/cutlass/cutlass.h": "/****\n * Copyright (c) NVIDIA\n ****/\n",
}
#: A selection with few programs.
SELECTION = ("--head-dim", "64", "--dtype", "bf16", "--features", "none", "--inference")
PYTHON = f"#!/bin/sh\nexec {sys.executable} -I {ROOT}/tests/build/patched.py \"$@\"\n"


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


class Said:
    def __init__(self, code, out, err, compiled):
        self.code, self.out, self.err, self.compiled = code, out, err, compiled

    def __repr__(self):
        return f"exit {self.code}\n{self.out}\n{self.err}\ncompiled: {self.compiled}"


class World:
    """The folders of one test, and runs of `anyflash build` in them."""

    def __init__(self, folder):
        self.folder = folder
        self.cuda = folder / "cuda"
        self.log = folder / "compiled"
        self.ptx = folder / "recorded"
        self.sources = folder / "cache" / "build" / "sources"
        for header in ("cuda_fp16.h", "cuda/std/utility"):
            write(self.cuda / "include" / header, "")
        write(self.cuda / "version.json", '{"cuda": {"version": "13.0.2"}}')
        write(self.cuda / "bin" / "nvcc", "#!/bin/sh\nexit 1\n", 0o755)
        (self.cuda / "lib64").mkdir()
        shutil.copy(os.environ["FAKE_NVRTC"], self.cuda / "lib64" / "libnvrtc.so.13")
        for name in ("members", "small"):
            recorded = (ROOT / "tests" / "pack" / f"{name}.ptx.xz").read_bytes()
            write(self.ptx / f"{name}.ptx", lzma.decompress(recorded).decode())
        write(folder / "bin" / "python3", PYTHON, 0o755)
        self.sources.mkdir(parents=True)
        for made in (self.sources, *self.sources.parents[:2]):
            made.chmod(0o755)  # as the program makes them, whatever the umask is
        self.pack(FILES)

    def pack(self, files):
        """Makes the source archive of these files, and the record of its hash."""
        archive = self.sources / f"{TOP}.tar.gz"
        for name, text in files.items():
            write(self.folder / "sdist" / TOP / name, text)
        with tarfile.open(archive, "w:gz") as out:
            out.add(self.folder / "sdist" / TOP, TOP)
        self.lock(hashlib.sha256(archive.read_bytes()).hexdigest())

    def lock(self, digest, url="https://x.invalid/a"):
        write(self.sources / "pylock.flash-attn.toml",
              f'[[packages]]\nname = "flash-attn"\nsdist = {{ url = "{url}", '
              f'hashes = {{ sha256 = "{digest}" }} }}\n')

    def environment(self, **more):
        return {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "ANYFLASH_CACHE": str(self.folder / "cache"),
            "ANYFLASH_STATE": str(self.folder / "state"),
            "CUDA_HOME": str(self.cuda),
            "FAKE_NVRTC_LOG": str(self.log),
            "FAKE_NVRTC_PTX": str(self.ptx),
            **more,
        }

    def start(self, *options, more=None, words=()):
        self.log.write_text("")
        command = [*words, os.environ["ANYFLASH"], "build", "--offline", *map(str, options)]
        return subprocess.Popen(command, env=self.environment(**(more or {})), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                cwd=self.folder, start_new_session=True)

    def said(self, process):
        out, err = process.communicate(timeout=120)
        schemas.check(out)
        return Said(process.returncode, out, err, self.compiled())

    def run(self, *options, **keywords):
        return self.said(self.start(*(options or SELECTION), **keywords))

    def run_clean(self):
        """What `--clean` prints."""
        return subprocess.run([os.environ["ANYFLASH"], "build", "--clean"], text=True,
                              capture_output=True, env=self.environment(), check=True).stdout

    def compiled(self):
        return sorted(line.split()[0] for line in self.log.read_text().splitlines())

    def wheel(self, said):
        """The wheel that a build has made."""
        return pathlib.Path(re.search(r"(/\S+\.whl)", said.out)[1])

    def interrupt_when(self, process, wanted, number=signal.SIGINT):
        """Sends the signal once so many programs are being compiled, or have been."""
        end = time.monotonic() + 60
        while len(self.compiled()) < wanted:
            assert process.poll() is None and time.monotonic() < end, self.compiled()
            time.sleep(0.02)
        os.killpg(process.pid, number)
