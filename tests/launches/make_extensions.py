#!/usr/bin/env python3
"""Compiles both sides of test_launches.py: `make_extensions.py FOLDER [OBJECT ...]`.

It runs in a Python with torch. Objects are compiled kernels, those of a build; without them
only their parameters are recorded. The sources of flash-attn and CUDA's headers are
downloaded once (tests/real/builds.py); no CUDA compiler is needed. flash_api.cpp takes a
minute.
"""
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "launches"
GLUE = ROOT / "engine" / "cuda"
sys.path.insert(0, str(ROOT / "tests" / "real"))
import builds

RELEASE = "2.8.3.post2"
# -Bsymbolic: torch has loaded the real CUDA runtime, which must not be called.
COMPILE = ["g++", "-std=c++17", "-O2", "-w", "-fPIC", "-shared", "-Wl,-Bsymbolic-functions"]


def compile_library(target, sources, folders, more=()):
    subprocess.run([*COMPILE, *(f"-I{folder}" for folder in folders), *sources, *more,
                    "-o", f"{target}.new"], check=True)
    pathlib.Path(f"{target}.new").rename(target)


def make_ours(folder, kernels, cuda, objects):
    package = folder / "flash_attn_2_cuda"
    package.mkdir(parents=True, exist_ok=True)
    shutil.copy(GLUE / "python" / "flash_attn_2_cuda" / "__init__.py", package)
    sources = [*GLUE.glob("*.cpp"), HERE / "record.cpp", HERE / "cuda.cpp"]
    compile_library(package / "libanyflash_cuda.so", sources,
                    [GLUE / "torch", GLUE, ROOT / "include", *kernels, *cuda],
                    ["-DWITH_GLUE", "-fvisibility=hidden", *objects])


def make_upstream(folder, kernels, cuda, objects):
    target = folder / "upstream_cuda.so"
    headers = pathlib.Path(torch.__file__).parent / "include"
    libraries = headers.parent / "lib"
    sources = [HERE / "upstream" / "upstream.cpp", HERE / "record.cpp", HERE / "cuda.cpp"]
    if target.exists():
        return
    compile_library(target, sources,
                    [HERE / "upstream", *kernels, headers,
                     headers / "torch" / "csrc" / "api" / "include",
                     sysconfig.get_path("include"), *cuda],
                    ["-DTORCH_EXTENSION_NAME=upstream_cuda", *objects, f"-L{libraries}",
                     *(f"-l{name}" for name in ("torch", "torch_cpu", "torch_python", "c10")),
                     f"-Wl,-rpath,{libraries}"])


def main():
    folder = pathlib.Path(sys.argv[1])
    objects = ["-DREAL_KERNELS", *sys.argv[2:]] if sys.argv[2:] else []
    sources = builds.sdist(f"flash-attn=={RELEASE}") / "csrc"
    package = folder / "package"
    if not package.exists():
        shutil.copytree(sources.parent / "flash_attn", package / "flash_attn")
    kernels = [sources / "flash_attn" / "src", sources / "flash_attn",
               sources / "cutlass" / "include"]
    major = 13 if objects else int((torch.version.cuda or "13").split(".", maxsplit=1)[0])
    cuda, _ = builds.cuda_folders(major)
    make_ours(folder, kernels, cuda, objects)
    make_upstream(folder, kernels, cuda, objects)


if __name__ == "__main__":
    main()
