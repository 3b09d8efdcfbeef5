#!/usr/bin/env python3
"""Builds a wheel of flash-attn that works with every torch from 2.4 on and every Python:

    flash_attn_wheel.py PACK LIBRARY PLATFORM [FOLDER]

flash-attn's own Python files, from its published sdist; in the place of its extension the
module of bindings/flash_attn with LIBRARY, which is libanyflash_cuda of a build; and PACK, the
kernels that `make kernels` makes. PLATFORM is the wheel's: manylinux_2_28_x86_64, win_amd64.
"""

import pathlib
import sys
import tarfile

import wheel_file
from version import version

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging" / "kernels"))
import pack_file  # noqa: E402
import sources  # noqa: E402

MODULE = ROOT / "bindings" / "flash_attn" / "flash_attn_2_cuda" / "__init__.py"
#: What a program is told about the wheel, and the local part of its version.
LOCAL = "any.ptx"
#: Lines of upstream's METADATA that are about its own files, or ask its authors.
REPLACED = ("Name:", "Version:", "Summary:", "Home-page:", "Author:", "Author-email:",
            "Classifier:", "Dynamic:", "License-File:", "Project-URL:", "Description")
#: Whose code is in the library.
LICENCES = {"LICENSE.anyflash": "LICENSE", "zstd.txt": "licenses/zstd.txt"}


def upstream(sdist):
    """({name: bytes} of the Python package, PKG-INFO, {name: bytes} of its licences)."""
    package, licences, about = {}, {}, b""
    with tarfile.open(sdist) as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if name.startswith("flash_attn/") and name.endswith(".py"):
                package[name] = archive.extractfile(member).read()
            elif name in ("LICENSE", "AUTHORS"):
                licences[name] = archive.extractfile(member).read()
            elif name == "PKG-INFO":
                about = archive.extractfile(member).read()
    return package, about.decode(), licences


def metadata(about, licences, kernels):
    head = about.partition("\n\n")[0].splitlines()
    kept = [line for line in head if not line.startswith(REPLACED)]
    return "\n".join([
        *kept, "Name: flash-attn", f"Version: {sources.RELEASE}+{LOCAL}",
        "Summary: FlashAttention-2 for every torch from 2.4 on, with its kernels as PTX",
        *(f"License-File: {name}" for name in sorted(licences)), "",
        f"flash-attn {sources.RELEASE}, whose authors did not make this wheel: its Python "
        f"files are unchanged, and anyflash {version()} takes the place of its extension. "
        f"{kernels} kernels are compiled from the published sources to PTX, which NVIDIA's "
        "driver (520 or newer) turns into machine code at the first use of each, for GPUs of "
        "compute capability 8.0 and newer. Questions about this wheel are for anyflash.", ""])


def contents(pack, library, platform):
    sdist = sources.download(pathlib.Path(ROOT, "build", "kernels"))
    package, about, licences = upstream(sdist)
    licences |= {name: (ROOT / path).read_bytes() for name, path in LICENCES.items()}
    licences["kernels.txt"] = pack_file.Pack(pack).licence().encode()
    info = f"flash_attn-{sources.RELEASE}+{LOCAL}.dist-info"
    files = package | {f"{info}/licenses/{name}": text for name, text in licences.items()}
    kernels = len(pack_file.Pack(pack).kernels)
    files[f"{info}/METADATA"] = metadata(about, licences, kernels).encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: anyflash ({version()})\n"
                              f"Root-Is-Purelib: false\nTag: py3-none-{platform}\n").encode()
    files |= {"flash_attn_2_cuda/__init__.py": MODULE.read_bytes(),
              f"flash_attn_2_cuda/flash-attn-{sources.RELEASE}.kernels": pack.read_bytes()}
    plain = {name: (content, False) for name, content in files.items()}
    return plain | {f"flash_attn_2_cuda/{library.name}": (library.read_bytes(), True)}


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    pack, library = map(pathlib.Path, sys.argv[1:3])
    platform = sys.argv[3]
    folder = pathlib.Path(*(sys.argv[4:] or [ROOT / "dist"]))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"flash_attn-{sources.RELEASE}+{LOCAL}-py3-none-{platform}.whl"
    wheel_file.write(path, contents(pack, library, platform))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
