#!/usr/bin/env python3
"""NVRTC for Windows makes the kernels of NVRTC for Linux: nvrtc_windows.py FOLDER TRY.EXE.

Both are packages of the index, of one version. TRY.EXE (tests/windows/nvrtc_try.c) runs under
Wine, as `anyflash build` would in a Python for Windows. One kernel of forward, of decoding and
of backward: it has the same entry with as many bytes of parameters, and ptxas assembles it.
The texts differ: `long` has 32 bits on Windows, so names of templates do. Prints times; exits 1
if something is wrong.
"""

import gzip
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging" / "kernels"))
import nvrtc  # noqa: E402
import sources  # noqa: E402

#: NVRTC 13.0 for Windows reads a null pointer under Wine 8, for any source.
PACKAGES = ("nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.90",
            "nvidia-cuda-cccl-cu12==12.9.27")
PTXAS = "nvidia-cuda-nvcc-cu12==12.8.93"
KINDS = ("flash_fwd_kernel", "flash_fwd_splitkv_kernel",
         "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel")
PLATFORMS = {"linux": "x86_64-manylinux_2_28", "windows": "x86_64-pc-windows-msvc"}


def install(folder, platform):
    if not folder.exists():
        subprocess.run(["uv", "pip", "install", "-q", "--no-deps", "--python-platform",
                        PLATFORMS[platform], "--target", folder, *PACKAGES], check=True)
    return nvrtc.find([folder])


def kernels():
    """The first kernel of each kind with head size 64 and bf16."""
    packed = (ROOT / "packaging/kernels/kernel_names.txt.gz").read_bytes()
    names = gzip.decompress(packed).decode().splitlines()
    for kind in KINDS:
        yield next(name for name in names if name.startswith(f"{kind} 64 ") and "bf16" in name)


def entries(path):
    """The kernels with their parameters, as PTX declares them."""
    found = re.findall(r"^\.visible \.entry .*?\)", path.read_text(), re.M | re.S)
    return [" ".join(entry.split()) for entry in found]


def assembles(folder, path):
    tool, = (folder / "ptxas").glob("nvidia/*/bin/ptxas")
    return subprocess.run([tool, "-arch=sm_80", path, "-o", path.with_suffix(".cubin")],
                          check=False).returncode == 0


def windows_path(path):
    return "Z:" + str(path).replace("/", "\\")


def main():
    folder, program = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    tree = sources.unpacked(sources.download(folder), folder)
    includes = [sources.TORCH_HEADERS, *(tree / include for include in sources.INCLUDES)]
    found = {name: install(folder / name, name) for name in PLATFORMS}
    if not (folder / "ptxas").exists():
        subprocess.run(["uv", "pip", "install", "-q", "--no-deps", "--target",
                        folder / "ptxas", PTXAS], check=True)
    files = {path: name for name in kernels()
             for path in nvrtc.write_programs([name], folder / "programs")}
    start = time.monotonic()
    nvrtc.compile_all(found["linux"], files, includes, folder / "ptx", 1)
    print(f"Linux: {time.monotonic() - start:.0f} s")
    library, headers = found["windows"]
    worse = 0
    for path, name in files.items():
        start = time.monotonic()
        made = folder / f"{path.stem}.windows.ptx"
        options = [f"-I{windows_path(each)}" for each in
                   (folder / "ptx" / "standins", *includes, *headers)]
        done = subprocess.run(["wine", program, windows_path(library), windows_path(path),
                               windows_path(made), *nvrtc.OPTIONS, *options], check=False)
        seconds = time.monotonic() - start
        linux = folder / "ptx" / f"{path.stem}.ptx"
        fine = (done.returncode == 0 and entries(made) == entries(linux) != []
                and assembles(folder, made))
        worse += not fine
        print(f"{name.split()[0]}: {'the same kernel' if fine else 'wrong'} after "
              f"{seconds:.0f} s", flush=True)
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
