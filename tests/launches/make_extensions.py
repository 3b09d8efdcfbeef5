#!/usr/bin/env python3
"""Puts both sides of test_launches.py into a folder: `make_extensions.py FOLDER BUILD`.

It runs in a Python with torch. Ours are the Python module, libanyflash_cuda of BUILD, a pack
without code and a stand-in for NVIDIA's driver. flash-attn's extension is compiled with
functions in the place of the kernels, which keep their parameters (record.cpp). The sources of
flash-attn and CUDA's headers are downloaded once (tests/real/builds.py); no CUDA compiler is
needed. flash_api.cpp takes a minute.
"""
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "launches"
MODULE = ROOT / "bindings" / "flash_attn" / "flash_attn_2_cuda" / "__init__.py"
sys.path.insert(0, str(ROOT / "tests" / "real"))
import builds
import stub_pack

RELEASE = "2.8.3.post2"
# -Bsymbolic: torch has loaded the real CUDA runtime, which must not be called.
COMPILE = ["g++", "-std=c++20", "-O2", "-w", "-fPIC", "-shared", "-Wl,-Bsymbolic-functions"]


def compile_library(target, sources, folders, more=()):
    subprocess.run([*COMPILE, *(f"-I{folder}" for folder in folders), *sources, *more,
                    "-o", f"{target}.new"], check=True)
    pathlib.Path(f"{target}.new").rename(target)


def make_ours(folder, build):
    package = folder / "flash_attn_2_cuda"
    package.mkdir(parents=True, exist_ok=True)
    for source in (MODULE, build / "libanyflash_cuda.so",
                   build / "tests" / "fake_driver" / "libcuda.so.1"):
        shutil.copy(source, package)
    stub_pack.write(package / "flash-attn-2.8.3.post2.kernels")


def make_upstream(folder, kernels, cuda):
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
                    ["-DTORCH_EXTENSION_NAME=upstream_cuda", f"-L{libraries}",
                     *(f"-l{name}" for name in ("torch", "torch_cpu", "torch_python", "c10")),
                     f"-Wl,-rpath,{libraries}"])


def main():
    folder, build = map(pathlib.Path, sys.argv[1:])
    sources = builds.sdist(f"flash-attn=={RELEASE}") / "csrc"
    package = folder / "package"
    if not package.exists():
        shutil.copytree(sources.parent / "flash_attn", package / "flash_attn")
    kernels = [sources / "flash_attn" / "src", sources / "flash_attn",
               sources / "cutlass" / "include"]
    cuda, _ = builds.cuda_folders(int((torch.version.cuda or "13").split(".", maxsplit=1)[0]))
    make_ours(folder, build)
    make_upstream(folder, kernels, cuda)


if __name__ == "__main__":
    main()
