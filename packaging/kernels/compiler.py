"""The CUDA compiler of a pack, and the build of PTX with it.

    nvcc = find(given, cache)               # of the user, on PATH, or downloaded
    compile_all(nvcc, {"x.cu": "x.ptx"}, includes, folder, jobs)

ninja compiles, as many files at once as memory and cores allow; if it was interrupted, it goes
on with the files that are not compiled yet.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from ptx import TARGET
from sources import make_python

#: flash-attn's options, without those that concern machine code or the host.
OPTIONS = ("-ptx", f"-arch=compute_{TARGET}", "-O3", "-std=c++17",
           "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__",
           "-U__CUDA_NO_HALF2_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
           "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math")
#: The compiler in NVIDIA's packages for Python.
TOOLKIT = ("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88",
           "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85")
#: What one compiler needs; up to 6.3 GiB were measured.
COMPILER_BYTES = 7 << 30
RULE = """ninja_required_version = 1.5
pool compile
  depth = {depth}
rule ptx
  command = {command} -o $out $in
  description = $out
  pool = compile
"""


def find(given, cache):
    """The path of nvcc: `given`, or that on PATH, or one downloaded into `cache`."""
    found = given or shutil.which("nvcc")
    if found is None:
        make_python(cache / "toolkit", TOOLKIT)
        found, = (cache / "toolkit").glob("lib/python*/site-packages/nvidia/*/bin/nvcc")
    return pathlib.Path(found).absolute()


def version(nvcc):
    """The version of nvcc, such as 13.0.88."""
    try:
        done = subprocess.run([str(nvcc), "--version"], text=True, capture_output=True)
    except OSError as failure:
        sys.exit(f"error: '{nvcc}' cannot be started: {failure.strerror}")
    found = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout)
    if not found:
        sys.exit(f"error: '{nvcc} --version' does not print the version of nvcc")
    return found[1]


def number_in(path):
    """The number in a file of Linux; 2**63 if there is none."""
    try:
        return int(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        return 1 << 63


def jobs_allowed(compiler_bytes=COMPILER_BYTES):
    """How many compilers the memory and the cores of this machine allow at once."""
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        return 1  # not Linux: nothing is known
    free = min(free, number_in("/sys/fs/cgroup/memory.max"),
               number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
    return max(1, min(free // compiler_bytes, len(os.sched_getaffinity(0))))


def escaped(path):
    """A path as ninja's files have it."""
    return re.sub(r"[$ :]", r"$\g<0>", str(path))


def compile_all(nvcc, files, includes, headers, folder, jobs):
    """Compiles files, {source: name of the result in `folder`}, again if `headers` changed."""
    folders = [word for include in includes for word in ("-I", str(include))]
    command = shlex.join([str(nvcc), *OPTIONS, *folders]).replace("$", "$$")
    needed = " ".join(map(escaped, [nvcc, *sorted(headers)]))
    builds = [f"build {escaped(result)}: ptx {escaped(source)} | {needed}\n"
              for source, result in files.items()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.ninja").write_text(RULE.format(depth=jobs, command=command)
                                        + "".join(builds))
    environment = {"NINJA_STATUS": "[%f of %t, %e s] ", **os.environ}
    done = subprocess.run(["ninja", "-C", str(folder)], env=environment)
    if done.returncode:
        sys.exit("error: compiling failed; the same command goes on where it stopped")
