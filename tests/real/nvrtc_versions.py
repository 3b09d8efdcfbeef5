#!/usr/bin/env python3
"""Makes kernels with several versions of NVRTC, and assembles them: nvrtc_versions.py FOLDER.

Each version is downloaded with NVIDIA's headers of its CUDA, and compiles a small part of
flash-attn: forward, decoding and backward, as `anyflash build` does. The part must have the
same kernels each time, and ptxas must turn each into machine code. Prints times and memory;
exit code 1 if something failed. --head-dim and --features choose another part.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "packaging" / "kernels"
CCCL = "nvidia-cuda-cccl-cu12==12.9.27"  # serves all of them
VERSIONS = {
    "12.1": ("nvidia-cuda-nvrtc-cu12==12.1.105", "nvidia-cuda-runtime-cu12==12.1.105", CCCL),
    "12.4": ("nvidia-cuda-nvrtc-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.4.127", CCCL),
    "12.8": ("nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.90", CCCL),
    "13.0": ("nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96",
             "nvidia-cuda-cccl==13.0.85"),
}
PTXAS = ("nvidia-cuda-nvcc==13.0.88",)


def install(folder, packages):
    if not folder.exists():
        subprocess.run(["uv", "pip", "install", "-q", "--no-deps", "--target", str(folder),
                        *packages], check=True)
    return folder


def make(version, given):
    """The kernels' names in the pack that this version makes."""
    packages = install(given.folder / version, VERSIONS[version])
    output = given.folder / f"packs-{version}"
    subprocess.run([sys.executable, KERNELS / "make_pack.py", "--nvrtc", packages, "--head-dim",
                    given.head_dim, "--dtype", "bf16", "--features", given.features, "--output",
                    output, "--work", given.folder / "work"], check=True)
    pack, = output.glob("*.kernels")
    tool, = install(given.folder / "ptxas", PTXAS).glob("nvidia/*/bin/ptxas")
    subprocess.run([sys.executable, KERNELS / "assemble.py", pack, "--ptxas", tool, "--targets",
                    "80,90,120"], check=True)
    sys.path.insert(0, str(KERNELS))
    import pack_file
    return set(pack_file.Pack(pack).kernels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--head-dim", default="64")
    parser.add_argument("--features", default="none")
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    given = parser.parse_args()
    given.folder = given.folder.absolute()
    found = {}
    for version in given.versions:
        print(f"NVRTC {version}", flush=True)
        try:
            found[version] = make(version, given)
        except subprocess.CalledProcessError as failure:
            print(f"failed: {failure}")
    same = len(set(map(frozenset, found.values()))) == 1
    sys.exit(0 if same and len(found) == len(given.versions) else 1)


if __name__ == "__main__":
    main()
