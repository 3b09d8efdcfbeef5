"""A world for `anyflash build` without network, torch or CUDA.

The compilers only log what they compile; the linker copies a library of this system. All else
is real: the program, the governor and tar.
"""

import hashlib
import os
import pathlib
import stat
import subprocess
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "2.8.3.post2"
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

# Our own sources, which each build compiles, too.
GLUE = sorted(path.name for path in (ROOT / "engine" / "cuda").iterdir()
              if path.suffix in (".cpp", ".cu"))

# Conditions as in the launchers of 2.8.3.
LAUNCHER = '''
if (status_ != cudaSuccess) {
if (smem_size >= 48 * 1024) {
if (is_sm8x) {
if constexpr(!Is_dropout) {
if (max_smem_per_block >= 2 * ((3 * 128 + 2 * 128) * Headdim + 2 * 128 * 128)) { // 104 KB
} else if (max_smem_per_block >= 144 * 1024) {  // A100
if (max_smem_per_block >= 2 * Headdim * (128 + 2 * 64) && max_smem_per_sm < 4 * Headdim * 192) {
'''

# How a compiler script starts: it finds its source and object.
READ_WORDS = '''#!/bin/sh
for word; do
    case $word in
    *.cu|*.cpp) source=$word ;;
    -shared) links=yes ;;
    esac
    [ "$before" = -o ] && object=$word
    before=$word
done
[ -z "$NVCC_APPEND_FLAGS$NVCC_PREPEND_FLAGS" ] || [ -z "$source" ] || exit 9
if [ -n "$links" ]; then
    eval "$BEFORE_LINK"
    cp "$LIBRARY" "$object" && eval "$BEFORE_PACK"
    exit
fi
'''

COMPILER = READ_WORDS + '''[ -n "$object" ] || exit 0
echo object >"$object"
basename "$source" >>"$COMPILED"
'''


def a_library():
    """A shared library that needs nothing but the C library: the C library's mathematics."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/libm.so" in line or "/libm-" in line:
            return line.split(maxsplit=5)[5]
    raise AssertionError("Python does not use libm")


def files_of():
    """(name, text) of flash-attn's files."""
    yield from (("LICENSE", "BSD"), ("AUTHORS", "somebody"), ("PKG-INFO", PKG_INFO))
    yield "flash_attn/__init__.py", f"__version__ = '{VERSION}'\n"
    yield "flash_attn/modules/mha.py", "# modules\n"
    yield "flash_attn/py.typed", ""
    yield "hopper/__init__.py", ""
    yield "csrc/cutlass/include/cutlass/cutlass.h", ""
    yield "csrc/flash_attn/flash_api.cpp", ""
    for name in ("flash_fwd_launch_template.h", "flash_bwd_launch_template.h"):
        yield f"csrc/flash_attn/src/{name}", LAUNCHER
    for kind in ("fwd", "fwd_split", "bwd"):
        for head_dim in (32, 64, 96, 128, 192, 256):
            for dtype in ("fp16", "bf16"):
                for causal in ("", "_causal"):
                    name = f"flash_{kind}_hdim{head_dim}_{dtype}{causal}_sm80.cu"
                    yield f"csrc/flash_attn/src/{name}", ""


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode | stat.S_IRUSR)


class World:
    """The folders of one test, and runs of `anyflash build` in them."""

    def __init__(self, folder):
        self.folder = folder
        self.cuda = folder / "cuda"
        self.compiled_log = folder / "compiled"
        for header in ("cuda_runtime.h", "cccl/cuda/std/utility"):
            write(self.cuda / "include" / header, "")
        write(self.cuda / "version.json", '{"cuda": {"version": "13.0.2"}}')
        for compiler in (self.cuda / "bin" / "nvcc", folder / "bin" / "c++"):
            write(compiler, COMPILER, 0o755)
        self.make_sources()

    def make_sources(self):
        top = f"flash_attn-{VERSION}"
        archive = self.folder / "cache" / "build" / "sources" / f"{top}.tar.gz"
        for name, text in files_of():
            write(self.folder / top / name, text)
        archive.parent.mkdir(parents=True)
        for made in (archive.parent, *archive.parent.parents[:2]):
            made.chmod(0o755)  # as the program makes them, whatever the umask is
        with tarfile.open(archive, "w:gz") as out:
            out.add(self.folder / top, top)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        write(archive.parent / "pylock.flash-attn.toml",
              '[[packages]]\nname = "flash-attn"\nsdist = { url = "https://x.invalid/a", '
              f'hashes = {{ sha256 = "{digest}" }} }}\n')

    def environment(self, path=None, **more):
        return {
            "PATH": f"{self.folder}/bin:{path or os.environ['PATH']}",
            "HOME": str(self.folder),
            "ANYFLASH_CACHE": str(self.folder / "cache"),
            "ANYFLASH_STATE": str(self.folder / "state"),
            "CUDA_HOME": str(self.cuda),
            "COMPILED": str(self.compiled_log),
            "LIBRARY": a_library(),
            **more,
        }

    def build(self, *options, more=None):
        """(exit code, stdout, stderr, names of the files compiled, in order)"""
        self.compiled_log.write_text("")
        words = ["build", "--arch", "90", "--offline", *options]
        done = subprocess.run([os.environ["ANYFLASH"], *map(str, words)],
                              env=self.environment(**(more or {})), capture_output=True,
                              text=True, timeout=120, check=False)
        schemas.check(done.stdout)
        return done.returncode, done.stdout, done.stderr, self.compiled_log.read_text().split()
