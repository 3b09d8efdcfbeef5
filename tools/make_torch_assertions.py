#!/usr/bin/env python3
"""Writes data/torch_assertions.tsv: the lines of torch's headers that hold assertions.

An extension contains the text, the header's name and the line of each assertion of torch's
headers that was compiled into it. The lines differ between releases, so they show which torch
it was built for. Reads the headers of torch wheels, one folder per release:

    tools/make_torch_assertions.py FOLDER        # with FOLDER/2.9.1/torch/include, ...

A header is both preprocessed with the others (for macros that contain an assertion) and read as
text (for branches that the preprocessor leaves out; compilers name any line of an assertion
that spans several). Lines too many do no harm: they only make the answer less exact.
"""
import argparse
import collections
import datetime
import pathlib
import re
import subprocess
import sys
import sysconfig

SOURCE = """
#include <torch/extension.h>
#include <torch/library.h>
#include <torch/custom_class.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
"""
CALL = re.compile(r"\b(?:TORCH_INTERNAL_ASSERT(?:_DEBUG_ONLY)?|AT_ASSERTM?)\s*\(")
TEXT = re.compile(r'INTERNAL ASSERT FAILED at "\s*"\\"([^"\\]*)\\""\s*":"\s*"?(\d+)')
# Headers that extensions compile in, by the part of their path after the last include/.
USED = re.compile(r"c10/|ATen/core/|ATen/cuda/|ATen/[A-Z]\w+\.h$|torch/(csrc/autograd|detail)/|"
                  r"torch/\w+\.h$")
HEAD = """\
# Lines of torch's headers that hold an internal assertion.
# source: the headers in the wheels of %s, read by tools/make_torch_assertions.py
# date: %s
# columns: header | line | releases as hexadecimal bits: bit N for torch 2.N
"""


def preprocessed(include, cuda, standard, define):
    command = ["g++", "-E", "-w", "-x", "c++", f"-std=c++{standard}", *define, f"-I{include}",
               f"-I{include}/torch/csrc/api/include",
               f"-I{sysconfig.get_path('include')}", *(f"-I{one}" for one in cuda), "-"]
    answer = subprocess.run(command, input=SOURCE, text=True, capture_output=True, check=True)
    for path, line in TEXT.findall(answer.stdout):
        if str(include) in path:
            yield path.rpartition("/include/")[2], int(line)


def call_end(text, at):
    """The position after the parenthesis that closes the one before `at`."""
    depth = 1
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def read_as_text(include):
    for path in sorted(include.rglob("*.h")):
        text = path.read_text(errors="replace")
        for match in CALL.finditer(text):
            first = text.count("\n", 0, match.start()) + 1
            last = text.count("\n", 0, call_end(text, match.end())) + 1
            for line in range(first, last + 1):
                yield str(path).rpartition("/include/")[2], line


def read_release(folder, cuda):
    include = folder / "torch" / "include"
    minor = int(folder.name.split(".")[1])
    standard = 20 if minor >= 14 else 17
    found = set(read_as_text(include))
    for define in ([], ["-DNDEBUG"]):
        found |= set(preprocessed(include, cuda, standard, define))
    return minor, {place for place in found if USED.match(place[0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="a folder for each release")
    parser.add_argument("--cuda", action="append", default=[], help="include folder of CUDA")
    options = parser.parse_args()
    masks = collections.Counter()
    releases = sorted((one for one in options.folder.iterdir() if one.is_dir()),
                      key=lambda one: [int(part) for part in one.name.split(".")])
    for release in releases:
        minor, found = read_release(release, options.cuda)
        for place in found:
            masks[place] |= 1 << minor
        print(f"{release.name}: {len(found)} lines", flush=True)
    all_minors = 0
    for release in releases:
        all_minors |= 1 << int(release.name.split(".")[1])
    telling = {header for (header, _), mask in masks.items() if mask != all_minors}
    rows = [f"{header}\t{line}\t{mask:x}"
            for (header, line), mask in sorted(masks.items()) if header in telling]
    names = f"torch {releases[0].name} to {releases[-1].name}"
    target = pathlib.Path(__file__).resolve().parents[1] / "data" / "torch_assertions.tsv"
    target.write_text(HEAD % (names, datetime.date.today()) + "\n".join(rows) + "\n")
    print(f"{len(rows)} rows of {len(telling)} headers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
