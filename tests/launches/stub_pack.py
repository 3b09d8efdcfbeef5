#!/usr/bin/env python3
"""Writes a pack that has every kernel of the full one by name, and no code in them.

    stub_pack.py FILE

fake_driver.c loads its kernels. kernel_names.txt.gz has the names in the full pack of
flash-attn 2.8.3.post2, sorted; `stub_pack.py --names PACK` writes it anew.
"""
import argparse
import gzip
import lzma
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ROOT / "packaging" / "kernels" / "kernel_names.txt.gz"
MEMBERS = ROOT / "tests" / "pack" / "members.ptx.xz"
sys.path.insert(0, str(ROOT / "packaging" / "kernels"))
import make_pack
import pack_file

HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"


def names():
    return gzip.decompress(NAMES.read_bytes()).decode().splitlines()


def layout():
    """(structs, members) of the kernels' parameters, as the compiler saw them."""
    return make_pack.layout(lzma.decompress(MEMBERS.read_bytes()).decode())


def write(path):
    structs, members = layout()
    writer = pack_file.Writer()
    writer.add_licence("none: there is no code in it\n")
    writer.add_kernels((name, [HEAD, f"// {name}\n.visible .entry kernel()\n{{\n}}\n"])
                       for name in names())
    writer.write(path, {"flash-attn": "2.8.3.post2", "made": "for tests, without code",
                        "ptx": ("7.8", 80), "structs": structs, "members": members})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true")
    parser.add_argument("file")
    given = parser.parse_args()
    if not given.names:
        write(given.file)
        return
    text = "".join(f"{name}\n" for name in sorted(pack_file.Pack(given.file).kernels))
    NAMES.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
