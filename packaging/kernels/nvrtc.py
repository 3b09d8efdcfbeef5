"""Compiles kernels by their names with NVRTC, NVIDIA's compiler as a library, which every torch
for CUDA brings along: no nvcc and no host compiler.

    found = find(folders)                      # NVRTC and the headers, in site-packages
    programs = write_programs(names, folder)   # {source: its kernels}
    compile_all(found, {source: title(kernels), ...}, includes, folder, jobs)

`nvrtc.py find FOLDER ...` prints the folder that find() needs: that of this Python's packages
or one of FOLDER. Exit code 3: it lacks CCCL's headers, which torch does not bring along.

A program is a source with up to FORWARD_KERNELS kernels of one kind; its kernel number i is the
function k<i>. Each is compiled by a process of its own, `nvrtc.py compile`, because a compiler
may need 5 GiB, which only the end of its process gives back. PTX has its name once it is
complete, so an interrupted run goes on where it stopped.
"""

import ctypes
import hashlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import time

from ptx import TARGET

#: Reading the templates takes longer than one kernel; more kernels take more memory, 12 of the
#: backward pass up to 6.1 GiB (NVRTC 12.1).
FORWARD_KERNELS, BACKWARD_KERNELS = 12, 8
#: What one compiler needs.
COMPILER_BYTES = 6 << 30
OPTIONS = (f"--gpu-architecture=compute_{TARGET}", "-std=c++17", "--use_fast_math", "-DNDEBUG",
           "--device-as-default-execution-space", "--pre-include=prelude.h")

INTEGERS = "#include <cuda/std/cstdint>\n" + "".join(
    f"using cuda::std::{name};\n" for name in (
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)), "uintptr_t"))
TUPLES = ("tuple", "get", "tie", "make_tuple", "conditional_t", "is_same_v", "is_same",
          "true_type", "false_type", "integral_constant", "enable_if_t")
PRELUDE = """#include <cmath>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
namespace std {
%stemplate <class T> __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T> __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
}
""" % "".join(f"using cuda::std::{name};\n" for name in TUPLES)
MATH = """#pragma once
#define INFINITY (__int_as_float(0x7f800000))
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
"""
#: Headers of the host's C++ library that the sources include, with what they use of them.
HEADERS = {
    "prelude.h": PRELUDE, "cmath": MATH, "cstddef": "#include <cuda/std/cstddef>\n",
    "assert.h": "#undef assert\n#define assert(x) ((void)0)\n",
    "cstdint": "#pragma once\n" + INTEGERS, "stdint.h": "#pragma once\n" + INTEGERS,
    **dict.fromkeys(("algorithm", "cassert", "cstdio", "cstdlib", "cuda.h", "iostream",
                     "stdio.h", "stdlib.h", "tuple", "vector"), "\n"),
}

FORWARD = "flash_fwd_kernel.h",
BACKWARD = "flash_bwd_preprocess_kernel.h", "flash_bwd_kernel.h"
#: By the first word of a kernel's name: its headers, and the call that its body is. {t} are its
#: traits, {m} the other template arguments.
KINDS = {
    "flash_fwd_kernel": (FORWARD, "compute_attn<{t}, {m}>(params)"),
    "flash_fwd_splitkv_kernel": (FORWARD, "compute_attn_splitkv<{t}, {m}>(params)"),
    "flash_fwd_splitkv_combine_kernel":
        (FORWARD, "combine_attn_seqk_parallel<{t}, {m}>(params)"),
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel":
        (BACKWARD, "compute_dq_dk_dv_seqk_parallel<{t}, {m}>(params)"),
    "flash_bwd_dot_do_o_kernel": (BACKWARD[:1], "compute_dot_do_o<{m}, {t}>(params)"),
    "flash_bwd_convert_dq_kernel": (BACKWARD[:1], "convert_dQ<{t}>(params, splits)"),
}
TYPES = {"bf16": "cutlass::bfloat16_t", "fp16": "cutlass::half_t"}


class Unusable(Exception):
    """What is missing, or why NVRTC failed."""


# ---- where it is ----

def find(folders):
    """(path of NVRTC, folders of headers) in the folders of Python's packages, the first that
    has one wins; what a folder with NVRTC lacks may be in another one."""
    library, half = newest_pair(folders)
    standard = newest(folders, ("nvidia/*/include/cccl/cuda/std/utility",
                                "nvidia/*/include/cuda/std/utility",
                                "include/cccl/cuda/std/utility", "include/cuda/std/utility"))
    for what, one in (("nvidia-cuda-nvrtc", library), ("nvidia-cuda-runtime", half),
                      ("nvidia-cuda-cccl", standard)):
        if one is None:
            raise Unusable(f"{what} is in none of {', '.join(map(str, folders))}")
    return library, [standard.parents[2], half.parent]


LIBRARIES = ("nvidia/*/lib/libnvrtc.so.*[0-9]", "lib64/libnvrtc.so.*[0-9]",
             "lib/libnvrtc.so.*[0-9]", "nvidia/*/bin/nvrtc64_*_0.dll",
             "nvidia/*/bin/*/nvrtc64_*_0.dll", "torch/lib/nvrtc64_*_0.dll")


def newest_pair(folders):
    """(NVRTC, a header of the same CUDA) in the folders; None for what is not there."""
    libraries = [path for folder, pattern in itertools.product(folders, LIBRARIES)
                 for path in sorted(pathlib.Path(folder).glob(pattern), reverse=True)
                 if ".alt." not in path.name]
    for library in libraries:
        for root in library.parents[1:3]:  # DLLs may lie one folder deeper
            beside = [root / "include"]
            if root.name == "cuda_nvrtc":
                beside.append(root.with_name("cuda_runtime") / "include")
            for folder in beside:
                if (folder / "cuda_fp16.h").is_file():
                    return library, folder / "cuda_fp16.h"
    return (libraries or [None])[0], None


def newest(folders, patterns):
    """The last of the files, in the first folder that has one."""
    for folder, pattern in itertools.product(folders, patterns):
        found = sorted(pathlib.Path(folder).glob(pattern))
        if found:
            return found[-1]
    return None


# ---- programs ----

def arguments(name):
    """(kind, the traits' arguments, the other ones) of a kernel's name."""
    kind, *words = name.split()
    before = words[:1] if kind == "flash_bwd_dot_do_o_kernel" else []
    words = words[len(before):]
    end = next(i for i, word in enumerate(words) if word in TYPES) + 1
    return kind, words[:end], before + words[end:]


def function(number, name):
    kind, traits, more = arguments(name)
    headers, call = KINDS[kind]
    side = "fwd" if headers == FORWARD else "bwd"
    words = traits[:-3] + [("false", "true")[word == "1"] for word in traits[-3:-1]]
    words = ", ".join([*words, TYPES[traits[-1]]])
    body = call.format(t=f"Flash_{side}_kernel_traits<{words}>", m=", ".join(more))
    parameters = f"const __grid_constant__ Flash_{side}_params params"
    parameters += ", const int splits" if "splits" in call else ""
    return f'// {name}\nextern "C" __global__ void k{number}({parameters}) {{ {body}; }}\n'


def program(names):
    """The source of kernels with the same headers."""
    headers = KINDS[names[0].split()[0]][0]
    includes = "".join(f'#include "{name}"\n' for name in ("flash.h", *headers))
    return (f"{includes}using namespace FLASH_NAMESPACE;\n"
            + "".join(function(number, name) for number, name in enumerate(names)))


def title(names):
    """What a person is told that is being compiled."""
    kind, traits, _ = arguments(names[0])
    work = ("backward" if kind.startswith("flash_bwd") else "decoding" if "splitkv" in kind
            else "forward")
    return f"{work}, head size {traits[0]}, {traits[-1]}, {len(names)} kernels"


def alike(name):
    """What kernels of one program share: headers, head dimension and type; then the tile."""
    kind, traits, _ = arguments(name)
    return KINDS[kind][0], traits[0], traits[-1], traits[1:]


def write_programs(names, folder):
    """{source: its kernels}; a source is called by its contents."""
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(names, key=lambda name: (*alike(name), name.split()))
    for _, group in itertools.groupby(names, key=lambda name: alike(name)[:-1]):
        group = list(group)
        most = FORWARD_KERNELS if alike(group[0])[0] == FORWARD else BACKWARD_KERNELS
        count = -(-len(group) // most)
        size = -(-len(group) // count)
        for at in range(0, len(group), size):
            text = program(group[at:at + size])
            path = folder / f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}.cu"
            path.write_text(text)
            found[path] = group[at:at + size]
    return found


# ---- compiling ----

def tell(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def compile_all(found, files, includes, folder, jobs):
    """Compiles sources, {path: what it is}, to PTX in `folder`, `jobs` at once."""
    library, headers = found
    standins = folder / "standins"
    standins.mkdir(parents=True, exist_ok=True)
    for name, text in HEADERS.items():
        (standins / name).write_text(text)
    left = [path for path in files if not (folder / f"{path.stem}.ptx").exists()]
    running, start, failed = {}, time.monotonic(), None
    if left:
        tell(f"compiling {len(left)} programs, {jobs} at a time")
    try:
        while left or running:
            while left and len(running) < jobs and not failed:
                path = left.pop(0)
                result = folder / f"{path.stem}.ptx"
                command = [sys.executable, "-E", "-s", "-B", __file__, "compile", library, path,
                           result,
                           *(standins, *includes, *headers)]
                with open(result.with_suffix(".log"), "wb") as log:  # may be long
                    running[subprocess.Popen(list(map(str, command)), stdout=log,
                                             stderr=subprocess.STDOUT)] = path
            for process in [one for one in running if one.poll() is not None]:
                path = running.pop(process)
                text = (folder / f"{path.stem}.log").read_text(errors="replace").strip()
                if process.returncode and not failed:
                    failed = reason(process.returncode, files[path], text)
                tell(f"{files[path]}: {'failed' if process.returncode else 'done'} after "
                     f"{time.monotonic() - start:.0f} s, {len(left) + len(running)} to go")
            if failed and not running:
                raise Unusable(failed)
            time.sleep(0.05)
    finally:
        for process in running:
            process.kill()
            process.wait()


def reason(code, what, text):
    if code == -9:
        return f"{what}: the compiler was killed, perhaps because memory ran out: try --jobs 1"
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()
    return f"{what}: {lines[0] if lines else f'the compiler ended with {code}'}"


def compile_one(library, source, result, includes):
    """The child: one source to PTX."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not without its parent
    if os.name == "nt":  # NVRTC looks for its nvrtc-builtins DLL there
        os.environ["PATH"] = f"{pathlib.Path(library).resolve().parent};{os.environ['PATH']}"
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(name, *words):
        code = getattr(nvrtc, name)(*words)
        if code:
            raise Unusable(f"{name}: {nvrtc.nvrtcGetErrorString(code).decode()}")

    def text_of(size, get):
        count = ctypes.c_size_t()
        call(size, handle, ctypes.byref(count))
        text = ctypes.create_string_buffer(max(count.value, 1))
        call(get, handle, text)
        return text.value.decode()

    options = [*OPTIONS, *(f"-I{folder}" for folder in includes)]
    words = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
    handle = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(handle), pathlib.Path(source).read_bytes(),
         os.fsencode(source), 0, None, None)
    try:
        call("nvrtcCompileProgram", handle, len(options), words)
    except Unusable as failure:
        sys.exit(text_of("nvrtcGetProgramLogSize", "nvrtcGetProgramLog") + str(failure))
    part = pathlib.Path(result).with_suffix(".part")
    with open(part, "w") as file:
        file.write(text_of("nvrtcGetPTXSize", "nvrtcGetPTX"))
        file.flush()
        os.fsync(file.fileno())  # a file with this name is complete
    part.replace(result)


def version(library):
    """The version of NVRTC, such as 13.0."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        ctypes.CDLL(str(library)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    except (OSError, AttributeError) as failure:
        raise Unusable(f"'{library}' is no NVRTC that can be loaded: {failure}") from None
    return f"{major.value}.{minor.value}"


def print_found(folders):
    """Prints the first folder that has all, else the first that has NVRTC."""
    partly = []
    for folder in (sysconfig.get_path("platlib"), *folders):
        try:
            find([folder])
        except Unusable:
            partly += [folder] if None not in newest_pair([folder]) else []
            continue
        print(folder)
        return
    print(*partly[:1])
    sys.exit(3 if partly else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["find"]:
        print_found(sys.argv[2:])
    elif sys.argv[1:2] == ["compile"] and len(sys.argv) > 5:
        compile_one(*sys.argv[2:5], sys.argv[5:])
    else:
        sys.exit(__doc__)
