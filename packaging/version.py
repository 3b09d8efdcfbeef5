#!/usr/bin/env python3
"""The version of anyflash, which include/anyflash/anyflash.h states.

    version.py              # prints it
    version.py 0.2.0        # sets it: in the header, and in the Python package's copy

The header must compile without a build system and the Python package must run from the sources,
so both hold the number as text; everything else reads one of them (tests/cli/test_version.py).
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "include" / "anyflash" / "anyflash.h"
PYTHON = ROOT / "python" / "anyflash" / "_version.py"
_PARTS = ("MAJOR", "MINOR", "PATCH")


def version():
    """"0.1.0"."""
    text = HEADER.read_text("utf-8")
    return ".".join(
        re.search(rf"^#define ANYFLASH_VERSION_{part} (\d+)$", text, re.M)[1] for part in _PARTS
    )


def set_version(new):
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", new)
    if numbers is None:
        sys.exit(f"error: '{new}' is no version: give three numbers, such as 0.2.0")
    text = HEADER.read_text("utf-8")
    for part, number in zip(_PARTS, numbers.groups()):
        text = re.sub(rf"(#define ANYFLASH_VERSION_{part}) \d+", rf"\1 {number}", text)
    HEADER.write_text(text, "utf-8")
    old = PYTHON.read_text("utf-8")
    PYTHON.write_text(re.sub(r'"[\d.]+"', f'"{new}"', old), "utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        set_version(sys.argv[1])
    print(version())
