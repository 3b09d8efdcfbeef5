#!/usr/bin/env python3
"""Builds a wheel of flash-attn that works with every torch from 2.4 on and every Python:

    flash_attn_wheel.py PACK LIBRARY PLATFORM [FOLDER] [--sources TREE]

flash-attn's own Python files, from its published sdist (the unpacked TREE instead of a
download); in the place of its extension the module of bindings/flash_attn with LIBRARY, which
is libanyflash_cuda of a build; and PACK, the kernels that `make kernels` or `anyflash build`
makes. PLATFORM is the wheel's: manylinux_2_28_x86_64, win_amd64.
"""

import argparse
import gzip
import pathlib
import re
import sys
import tarfile

import wheel_file
from version import version

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging" / "kernels"))
import pack_file  # noqa: E402
import sources  # noqa: E402

ALL_KERNELS = gzip.decompress(
    (ROOT / "packaging" / "kernels" / "kernel_names.txt.gz").read_bytes()).decode()
MODULE = ROOT / "bindings" / "flash_attn" / "flash_attn_2_cuda" / "__init__.py"
#: The start of the local part of the version; what follows is in the name of a pack that is a
#: part of the whole.
LOCAL = "any.ptx"
#: Lines of upstream's METADATA that are about its own files, or ask its authors.
REPLACED = ("Name:", "Version:", "Summary:", "Home-page:", "Author:", "Author-email:",
            "Classifier:", "Dynamic:", "License-File:", "Project-URL:", "Description")
#: Whose code is in the library.
LICENCES = {"LICENSE.anyflash": "LICENSE", "zstd.txt": "licenses/zstd.txt"}


def files_of(tree):
    """(name, bytes) of the files of an sdist, packed or unpacked."""
    if tree.is_dir():
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                yield path.relative_to(tree).as_posix(), path.read_bytes()
        return
    with tarfile.open(tree) as archive:
        for member in archive:
            if member.isfile():
                yield member.name.partition("/")[2], archive.extractfile(member).read()


def upstream(tree):
    """({name: bytes} of the Python package, PKG-INFO, {name: bytes} of its licences)."""
    package, licences, about = {}, {}, b""
    for name, content in files_of(tree):
        if name.startswith("flash_attn/") and name.endswith(".py"):
            package[name] = content
        elif name in ("LICENSE", "AUTHORS"):
            licences[name] = content
        elif name == "PKG-INFO":
            about = content
    return package, about.decode(), licences


def checked(path):
    """The pack, if it is of this flash-attn and every part is what was written."""
    pack = pack_file.Pack(path)
    release = pack.rows["flash-attn"][0][0]
    if release != sources.RELEASE:
        raise pack_file.Damaged(f"it is of flash-attn {release}, not {sources.RELEASE}")
    for number in range(len(pack.families)):
        pack.family(number)
    return pack


def local_of(path, pack):
    """"any.ptx" of a pack with all kernels; else "any.ptx.hd128.bf16" of a file that is called
    flash-attn-2.8.3.post2-hd128-bf16.kernels, and "any.ptx.part" of one with another name."""
    if set(pack.kernels) >= set(filter(None, ALL_KERNELS.splitlines())):
        return LOCAL
    _, whole, part = path.stem.partition(f"flash-attn-{sources.RELEASE}")
    if not whole or not re.fullmatch(r"(-[a-z0-9]+)+", part, re.ASCII):
        return f"{LOCAL}.part"
    return LOCAL + part.replace("-", ".")


def metadata(about, licences, kernels, local):
    head = about.partition("\n\n")[0].splitlines()
    kept = [line for line in head if not line.startswith(REPLACED)]
    return "\n".join([
        *kept, "Name: flash-attn", f"Version: {sources.RELEASE}+{local}",
        "Summary: FlashAttention-2 for every torch from 2.4 on, with its kernels as PTX",
        *(f"License-File: {name}" for name in sorted(licences)), "",
        f"flash-attn {sources.RELEASE}, whose authors did not make this wheel: its Python "
        f"files are unchanged, and anyflash {version()} takes the place of its extension. "
        f"{kernels} kernels are compiled from the published sources to PTX, which NVIDIA's "
        "driver (520 or newer) turns into machine code at the first use of each, for GPUs of "
        "compute capability 8.0 and newer. Questions about this wheel are for anyflash.", ""])


def contents(given, pack, local):
    tree = given.sources or sources.download(pathlib.Path(ROOT, "build", "kernels"))
    if tree.is_dir():
        sources.check(tree)
    package, about, licences = upstream(tree)
    licences |= {name: (ROOT / path).read_bytes() for name, path in LICENCES.items()}
    licences["kernels.txt"] = pack.licence().encode()
    info = f"flash_attn-{sources.RELEASE}+{local}.dist-info"
    files = package | {f"{info}/licenses/{name}": text for name, text in licences.items()}
    files[f"{info}/METADATA"] = metadata(about, licences, len(pack.kernels), local).encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: anyflash ({version()})\n"
                              "Root-Is-Purelib: false\n"
                              f"Tag: py3-none-{given.platform}\n").encode()
    files |= {"flash_attn_2_cuda/__init__.py": MODULE.read_bytes(),
              f"flash_attn_2_cuda/flash-attn-{sources.RELEASE}.kernels": pack.data}
    found = {name: (content, False) for name, content in files.items()}
    found[f"flash_attn_2_cuda/{given.library.name}"] = given.library.read_bytes(), True
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("platform")
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--sources", type=pathlib.Path, metavar="TREE")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        pack = checked(given.pack)
    except pack_file.Damaged as failure:
        sys.exit(f"error: '{given.pack}' cannot be used: {failure}")
    local = local_of(given.pack, pack)
    path = given.folder / (f"flash_attn-{sources.RELEASE}+{local}"
                           f"-py3-none-{given.platform}.whl")
    part = path.with_name(path.name + ".part")
    wheel_file.write(part, contents(given, pack, local))
    part.replace(path)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
