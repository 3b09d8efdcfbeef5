"""A world for `anyflash build` without network, torch or CUDA.

torch, setuptools and wheel are stand-ins of a few lines that write a build.ninja as torch does,
run it and pack the wheel; the compilers only log what they compile. Everything else is real:
the program, its driver, the governor, the compiler wrappers and ninja.
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

VERSION = "2.8.3.post2"
TORCH = "2.11.0+cu130"

CPP_EXTENSION = '''
def CUDAExtension(name, sources, extra_compile_args):
    return name, sources, extra_compile_args
'''

SETUPTOOLS = '''
import os, pathlib, shutil, subprocess, sys, zipfile

def compile_all(base, sources, flags):
    temp = pathlib.Path(base) / "temp.linux-x86_64-cpython-312"
    rules = ["rule cu", "  depfile = $out.d", "  deps = gcc",
             "  command = $nvcc -MD -MF $out.d -c $in -o $out $cu",
             "rule cpp", "  command = $cxx -c $in -o $out $cc",
             "nvcc = " + os.environ["PYTORCH_NVCC"], "cxx = " + os.environ["CXX"],
             "cu = " + " ".join(flags["nvcc"]), "cc = " + " ".join(flags["cxx"])]
    for source in sources:
        rule = "cu" if source.endswith(".cu") else "cpp"
        out = temp / (source.rsplit(".", 1)[0] + ".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        rules.append(f"build {out}: {rule} {os.path.abspath(source)}")
    (temp / "build.ninja").write_text("\\n".join(rules) + "\\n")
    subprocess.run(["ninja", "-C", temp, "-j", os.environ["MAX_JOBS"]], check=True)

def before(step):
    subprocess.run(os.environ.get("BEFORE_" + step, ":"), shell=True, check=True)

def setup(ext_modules, install_requires, packages, **options):
    words = sys.argv
    base = words[words.index("--build-base") + 1]
    made = pathlib.Path(words[words.index("--dist-dir") + 1])
    compile_all(base, *ext_modules[0][1:])
    before("LINK")
    library = pathlib.Path(base) / "lib.linux-x86_64-cpython-312"
    library.mkdir(exist_ok=True)
    shutil.copy(os.environ["ANYFLASH"], library / "flash_attn_2_cuda.so")
    made.mkdir(exist_ok=True)
    before("PACK")
    version = options["version"] + "+" + os.environ["FLASH_ATTN_LOCAL_VERSION"]
    name = f"flash_attn-{version}-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(made / name, "w") as out:
        out.write(library / "flash_attn_2_cuda.so", "flash_attn_2_cuda.so")
        out.writestr("requires", " ".join(install_requires))
        out.writestr("packages", " ".join(packages))
'''

WHEEL = '''
import os, pathlib, shutil, subprocess, sys
subprocess.run(os.environ.get("BEFORE_NAME", ":"), shell=True, check=True)
path = pathlib.Path(sys.argv[-1])
platform = sys.argv[sys.argv.index("--platform-tag") + 1]
shutil.copy(path, path.with_name(path.name.replace("linux_x86_64", platform)))
path.unlink()
'''

SETUP = '''
import glob
import setuptools
from torch.utils.cpp_extension import CUDAExtension
sources = ["csrc/flash_attn/flash_api.cpp", *sorted(glob.glob("csrc/flash_attn/src/*.cu"))]
flags = {"cxx": ["-std=c++17"], "nvcc": ["-std=c++17"]}
setuptools.setup(
    version="2.8.3.post2",
    ext_modules=[CUDAExtension(name="x", sources=sources, extra_compile_args=flags)],
    install_requires=["torch", "einops"], packages=["flash_attn", "hopper"])
'''

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

# How a compiler script starts: it finds its source, object and dependency file.
READ_WORDS = '''#!/bin/sh
for word; do
    case $word in
    *.cu|*.cpp) source=$word ;;
    esac
    [ "$before" = -o ] && object=$word
    [ "$before" = -MF ] && depends=$word
    before=$word
done
'''

COMPILER = READ_WORDS + '''[ -n "$depends" ] && echo "$object: $source" >"$depends"
echo object >"$object"
basename "$source" >>"$COMPILED"
'''


def files_of():
    """(name, text) of flash-attn's files in csrc/flash_attn."""
    yield "flash_api.cpp", ""
    for name in ("flash_fwd_launch_template.h", "flash_bwd_launch_template.h"):
        yield f"src/{name}", LAUNCHER
    for kind in ("fwd", "fwd_split", "bwd"):
        for head_dim in (32, 64, 96, 128, 192, 256):
            for dtype in ("fp16", "bf16"):
                for causal in ("", "_causal"):
                    yield f"src/flash_{kind}_hdim{head_dim}_{dtype}{causal}_sm80.cu", ""


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
        self.make_environment(folder / "venv")
        for header in ("cuda.h", "cusparse.h"):
            write(self.cuda / "include" / header, "")
        write(self.cuda / "version.json", '{"cuda": {"version": "13.0.2"}}')
        for compiler in (self.cuda / "bin" / "nvcc", folder / "bin" / "c++"):
            write(compiler, COMPILER, 0o755)
        self.make_tools()
        self.make_sources()

    def make_environment(self, folder):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        self.site = next(folder.glob("lib/python3*")) / "site-packages"
        write(self.site / "torch" / "__init__.py", "")
        write(self.site / "torch" / "version.py", f"__version__ = '{TORCH}'\ncuda = '13.0'\n")
        write(self.site / "torch" / "utils" / "__init__.py", "")
        write(self.site / "torch" / "utils" / "cpp_extension.py", CPP_EXTENSION)
        write(self.site / "torch-2.11.0+cu130.dist-info" / "METADATA",
              f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n")

    def make_tools(self):
        """The build environment, which the program would otherwise create itself."""
        inputs = f"{self.python}\n{self.site / 'torch'}\nsystem\n"
        key = hashlib.sha256(inputs.encode()).hexdigest()[:16]
        tools = self.folder / "cache" / "build" / f"tools-{key}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tools], check=True)
        site = next(tools.glob("lib/python3*")) / "site-packages"
        write(site / "setuptools" / "__init__.py", SETUPTOOLS)
        write(site / "wheel" / "__main__.py", WHEEL)
        write(site / "anyflash-torch.pth", f"{self.site}\n")
        write(tools / "complete",
              f"tools of flash-attn builds, torch {TORCH}, the system's CUDA 13.0.2\n")

    def make_sources(self):
        top = f"flash_attn-{VERSION}"
        archive = self.folder / "cache" / "build" / "sources" / f"{top}.tar.gz"
        write(self.folder / top / "setup.py", SETUP)
        for name, text in files_of():
            write(self.folder / top / "csrc" / "flash_attn" / name, text)
        archive.parent.mkdir()
        with tarfile.open(archive, "w:gz") as out:
            out.add(self.folder / top, top)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        write(archive.parent / "pylock.flash-attn.toml",
              '[[packages]]\nname = "flash-attn"\nsdist = { url = "https://x.invalid/a", '
              f'hashes = {{ sha256 = "{digest}" }} }}\n')

    def build(self, *options):
        """(exit code, stdout, stderr, names of the files compiled, in order)"""
        self.compiled_log.write_text("")
        environment = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ANYFLASH": os.environ["ANYFLASH"],
            "ANYFLASH_CACHE": str(self.folder / "cache"),
            "ANYFLASH_STATE": str(self.folder / "state"),
            "CUDA_HOME": str(self.cuda),
            "COMPILED": str(self.compiled_log),
        }
        words = ["build", "--python", self.python, "--arch", "90", "--offline", *options]
        done = subprocess.run([os.environ["ANYFLASH"], *map(str, words)], env=environment,
                              capture_output=True, text=True, timeout=120, check=False)
        schemas.check(done.stdout)
        return done.returncode, done.stdout, done.stderr, self.compiled_log.read_text().split()
