#!/usr/bin/env python3
"""Compiles launch_choice for test_choice.py: `make_choice.py FOLDER [--sources SDIST]`.

flash-attn's sdist and CUDA's headers are downloaded once (tests/real/builds.py) unless
--sources and --cuda name them; neither torch nor a CUDA compiler is needed. It takes three
minutes and 2 GB.
"""
import argparse
import pathlib
import subprocess
import sys

import upstream_launches

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "launches"
OURS = ("params", "call_check", "call_params", "forward_launches", "backward_launches",
        "launch_name")
RELEASE = "2.8.3.post2"


def found_sources(given):
    """(the unpacked sdist, folders of CUDA's headers)."""
    if given.sources and given.cuda:
        return given.sources, [given.cuda, given.cuda / "cccl"]
    sys.path.insert(0, str(ROOT / "tests" / "real"))
    import builds
    cuda, _ = builds.cuda_folders(13)
    return builds.sdist(f"flash-attn=={RELEASE}"), [*cuda, *(one / "cccl" for one in cuda)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sources", type=pathlib.Path)
    parser.add_argument("--cuda", type=pathlib.Path)
    given = parser.parse_args()
    sdist, cuda = found_sources(given)
    kernels = sdist / "csrc" / "flash_attn" / "src"
    upstream_launches.templates(kernels, given.folder / "templates")
    folders = [given.folder / "templates", ROOT / "packaging" / "kernels" / "torch", kernels,
               sdist / "csrc" / "cutlass" / "include", *cuda, ROOT, ROOT / "include"]
    includes = [f"-I{folder}" for folder in folders]
    objects = []
    for path in [*(ROOT / "engine/gpu" / f"{name}.c" for name in OURS),
                 ROOT / "engine/base/base.c"]:
        objects.append(given.folder / f"{path.stem}.o")
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-c", *includes[-2:], path,
                        "-o", objects[-1]], check=True)
    subprocess.run(["g++", "-std=c++17", "-w", *includes, HERE / "launch_choice.cpp",
                    HERE / "upstream_launches.cpp", HERE / "device.cpp", *objects,
                    "-o", given.folder / "launch_choice"], check=True)


if __name__ == "__main__":
    main()
