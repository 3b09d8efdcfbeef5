#!/usr/bin/env python3
"""Writes what the packaging library says about tags, for tests/unit/kit/formats/test_tags.c.

Run with packaging 26.3 on the path: make_tags_data.py FOLDER. The lists are those of
cpython_tags() and compatible_tags(), which sys_tags() joins; the platform list is a short one.
"""
import pathlib
import sys

from packaging import tags

PLATFORMS = ["linux_x86_64", "manylinux_2_18_x86_64", "manylinux_2_17_x86_64",
             "manylinux2014_x86_64"]
CASES = [((3, minor), "") for minor in range(8, 16)] + \
        [((3, minor), "t") for minor in range(13, 16)] + [((3, 12), "d"), ((3, 13), "td")]


def main():
    folder = pathlib.Path(sys.argv[1])
    for version, flags in CASES:
        nodot = f"{version[0]}{version[1]}"
        abis = [f"cp{nodot}{flags}"]
        if flags.endswith("d"):
            abis.append(f"cp{nodot}{flags[:-1]}")
        found = list(tags.cpython_tags(version, abis, PLATFORMS))
        found += tags.compatible_tags(version, f"cp{nodot}", PLATFORMS)
        (folder / f"cp{nodot}{flags}.txt").write_text("".join(f"{tag}\n" for tag in found))


main()
