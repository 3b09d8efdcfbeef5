#!/usr/bin/env python3
"""Prints what the packaging library says about tags, for tests/unit/kit/formats/tags.txt.

Run with packaging 26.3 on the path. Prints a row for each interpreter: its name and the tags of
cpython_tags() and compatible_tags(), which sys_tags() joins. `*` is the platform; with several
platforms packaging gives each of these tags once for each, in the order of the platforms.
"""
from packaging import tags

PLATFORMS = ["*"]
CASES = [((3, minor), "") for minor in range(8, 16)] + \
        [((3, minor), "t") for minor in range(13, 16)] + [((3, 12), "d"), ((3, 13), "td")]


def main():
    for version, flags in CASES:
        nodot = f"{version[0]}{version[1]}"
        abis = [f"cp{nodot}{flags}"]
        if flags.endswith("d"):
            abis.append(f"cp{nodot}{flags[:-1]}")
        found = list(tags.cpython_tags(version, abis, PLATFORMS))
        found += tags.compatible_tags(version, f"cp{nodot}", PLATFORMS)
        print(f"cp{nodot}{flags}", *found)


main()
