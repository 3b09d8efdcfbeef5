#!/usr/bin/env python3
"""Compiles extensions against the headers of torch releases.

The C++ sources of flash-attn and causal-conv1d come from their sdists on PyPI. Their kernels
are left empty, because they need nvcc and no import needs them. layoutprobe.cpp is in this
folder. The headers of torch and CUDA are taken from their wheels. From each result a twin for
the other CUDA major version is made by renaming the CUDA runtime that it needs. Everything
goes to the cache folder of wheels.py; existing files are kept. A compilation takes 20 s of
processor time and 1.5 GB.
"""
import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile

import wheels

TORCHES = ("2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0",
           "2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1", "2.15.0")
CUDA_WHEELS = {
    12: ("nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cuda-nvcc-cu12==12.8.93",
         "nvidia-cusparse-cu12==12.5.8.93", "nvidia-cublas-cu12==12.8.4.1",
         "nvidia-cusolver-cu12==11.7.3.90"),
    13: ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88",
         "nvidia-cusparse==12.6.3.3", "nvidia-cublas==13.1.0.3", "nvidia-cusolver==12.0.4.66")}
# pybind11's macros as torch's extension builder defines them, up to torch 2.8.
PYBIND_ABI = {(2, 7): "_cxxabi1016", (2, 8): "_cxxabi1018"}
# The libraries that each was linked with when it was tested.
LIBRARIES = {
    "flash_attn_2_cuda": ("c10", "torch", "torch_cpu", "torch_python", "c10_cuda",
                          "torch_cuda"),
    "causal_conv1d_cuda": ("c10", "torch_cpu", "torch_python", "c10_cuda"),
    "layoutprobe": ("c10", "torch_cpu", "torch_python")}
HERE = pathlib.Path(__file__).resolve().parent
SOURCES = {"flash_attn_2_cuda": ("flash-attn==2.8.3", """
#include "flash_api.cpp"
namespace FLASH_NAMESPACE {
template <typename T, int D, bool C> void run_mha_fwd_(Flash_fwd_params &, cudaStream_t) {}
template <typename T, int D, bool C>
void run_mha_fwd_splitkv_dispatch(Flash_fwd_params &, cudaStream_t) {}
template <typename T, int D, bool C> void run_mha_bwd_(Flash_bwd_params &, cudaStream_t) {}
}
"""), "causal_conv1d_cuda": ("causal-conv1d==1.5.3.post1", """
#include "causal_conv1d.cpp"
#define EMPTY(name, type) \\
    template <typename I, typename W> void name(type &, cudaStream_t) {}
EMPTY(causal_conv1d_fwd_cuda, ConvParamsBase)
EMPTY(causal_conv1d_channellast_fwd_cuda, ConvParamsBase)
EMPTY(causal_conv1d_bwd_cuda, ConvParamsBwd)
EMPTY(causal_conv1d_channellast_bwd_cuda, ConvParamsBwd)
EMPTY(causal_conv1d_update_cuda, ConvParamsBase)
"""), "layoutprobe": (None, f'#include "{HERE}/layoutprobe.cpp"\n')}
# Both setup.py files import torch before they report their name; they need only this.
STUB = {"torch/__init__.py": "__version__ = '2.9.1'\nclass version:\n    cuda = '12.8'\n"
                             "    hip = None\nclass _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n"
                             "class cuda:\n    is_available = staticmethod(lambda: False)\n",
        "torch/utils/__init__.py": "",
        "torch/utils/cpp_extension.py":
            "from setuptools.command.build_ext import build_ext as BuildExtension\n"
            "def __getattr__(name):\n    return None\n"}
SHT_VERNEED = 0x6ffffffe


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def sdist(requirement):
    """The unpacked sdist."""
    name, _, version = requirement.partition("==")
    folder = wheels.CACHE / "sdist" / f"{name.replace('-', '_')}-{version}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in STUB.items():
            target = pathlib.Path(scratch) / "stub" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        python = pathlib.Path(scratch) / "env" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", f"{scratch}/env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "packaging", "psutil", "ninja",
                        "setuptools", "wheel"], check=True)
        environment = {**os.environ, "PYTHONPATH": f"{scratch}/stub",
                       "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE",
                       "CAUSAL_CONV1D_SKIP_CUDA_BUILD": "TRUE"}
        subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary",
                        ":all:", "--no-build-isolation", requirement, "-d", scratch],
                       check=True, env=environment)
        archive, = pathlib.Path(scratch).glob("*.tar.gz")
        shutil.unpack_archive(archive, folder.parent, filter="data")
    return folder


def torch_headers(version):
    return wheels.keep(f"torch=={version}", wheels.CACHE / "include" / version,
                       lambda member: re.match(r"torch/(include/|version\.py$)", member))


def cuda_folders(major):
    """Include folders of that CUDA version, and the runtime to link with."""
    kept = [wheels.keep(wheel, wheels.CACHE / f"cuda{major}" / wheel.replace("==", "-"),
                        lambda member: "/include/" in member or "/libcudart.so" in member)
            for wheel in CUDA_WHEELS[major]]
    folders = [folder for one in kept for folder in one.glob("nvidia/*/include")]
    runtime, = [path for one in kept for path in one.rglob(f"libcudart.so.{major}")]
    return folders, runtime


def stub_libraries():
    """Empty libraries with torch's SONAMEs, so that the linker records the dependencies."""
    folder = wheels.CACHE / "stubs"
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES["flash_attn_2_cuda"]:
        if not (folder / f"lib{name}.so").exists():
            subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null",
                            f"-Wl,-soname,lib{name}.so",
                            "-o", folder / f"lib{name}.so"], check=True)
    return folder


def flags_for(torch, name, include):
    """The macros that torch's CUDAExtension defines."""
    minor = numbers(torch)[:2]
    flags = [f"-std=c++{20 if minor >= (2, 14) else 17}", f"-DTORCH_EXTENSION_NAME={name}",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(minor >= (2, 7))}",
             "-DTORCH_API_INCLUDE_EXTENSION_H"]
    if minor <= (2, 8):
        abi = PYBIND_ABI.get(minor, "_cxxabi1011")
        flags += ['-DPYBIND11_COMPILER_TYPE="_gcc"', '-DPYBIND11_STDLIB="_libstdcpp"',
                  f'-DPYBIND11_BUILD_ABI="{abi}"']
    return [*flags, f"-I{include}", f"-I{include}/torch/csrc/api/include"]


def cuda_major(headers):
    text = (headers / "torch" / "version.py").read_text()
    return int(re.search(r"^cuda[^=]*= ['\"](\d+)", text, re.MULTILINE)[1])


def compile_one(torch, name):
    """Compiles the extension against that torch, and makes its twin for the other CUDA."""
    target = wheels.CACHE / "built" / torch / f"{name}.so"
    if target.exists():
        return
    requirement, text = SOURCES[name]
    source = sdist(requirement) / "csrc" if requirement else HERE
    headers = torch_headers(torch)
    major = cuda_major(headers)
    folders, runtime = cuda_folders(major)
    folders += [source, source / "flash_attn", source / "flash_attn" / "src",
                source / "cutlass" / "include", sysconfig.get_path("include")]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        main = pathlib.Path(scratch) / "main.cpp"
        main.write_text(text)
        part = pathlib.Path(scratch) / target.name
        subprocess.run(["nice", "g++", "-O1", "-w", "-fPIC", "-shared",
                        *flags_for(torch, name, headers / "torch" / "include"),
                        *(f"-I{folder}" for folder in folders), main, "-o", part,
                        "-Wl,--no-as-needed", f"-L{stub_libraries()}",
                        *(f"-l{library}" for library in LIBRARIES[name]),
                        "-Wl,--as-needed", runtime], check=True)
        shutil.move(part, target)
    print(f"  compiled {name} against torch {torch}", flush=True)


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xf0000000) >> 24) & 0x0fffffff
    return value


def rename_runtime(data, old, new):
    """The library with its CUDA runtime's SONAME and symbol version renamed."""
    table, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    data = bytearray(data.replace(old + b"\0", new + b"\0"))
    for i in range(count):
        row = struct.unpack_from("<IIQQQQII", data, table + i * size)
        at, records = row[4], row[7] if row[1] == SHT_VERNEED else 0
        for _ in range(records):
            _, names, _, first, step = struct.unpack_from("<HHIII", data, at)
            name = at + first
            for _ in range(names):
                value, _, _, _, following = struct.unpack_from("<IHHII", data, name)
                if value == elf_hash(old):
                    struct.pack_into("<I", data, name, elf_hash(new))
                name += following
            at += step
    return bytes(data)


def make_twin(torch, name):
    source = wheels.CACHE / "built" / torch / f"{name}.so"
    data = source.read_bytes()
    old, new = (12, 13) if b"libcudart.so.12\0" in data else (13, 12)
    target = wheels.CACHE / "built" / f"{torch}+cu{new}" / f"{name}.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(rename_runtime(data, b"libcudart.so.%d" % old, b"libcudart.so.%d" % new))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch", nargs="*", default=TORCHES, help="releases (default: all 16)")
    parser.add_argument("--extension", choices=SOURCES, action="append")
    arguments = parser.parse_args()
    for name in arguments.extension or SOURCES:
        for torch in arguments.torch:
            compile_one(torch, name)
            if name == "flash_attn_2_cuda":
                make_twin(torch, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
