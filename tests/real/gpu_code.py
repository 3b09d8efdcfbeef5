#!/usr/bin/env python3
"""Compares the GPU code that anyflash reads with what NVIDIA's cuobjdump lists.

Compares every library with GPU code in the given folders (an environment's site-packages)
and prints each difference. Two differences are expected and not counted: cuobjdump prints
sm_100f as sm_100, and anyflash does not list cubins without kernels. cuobjdump stops at the
first cubin that it no longer supports (sm_35 ... sm_70); such files are reported as not
comparable. If a library only has code for a later device link, cuobjdump lists it as if it
could be loaded. Exit code: 0 no difference, 1 a difference, 3 nothing could be compared.

    python3 tests/real/gpu_code.py --print build/release/tests/print_gpu_code FOLDER ...

cuobjdump is in the wheel nvidia-cuda-cuobjdump on PyPI, which uv downloads unless --cuobjdump
is given.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LISTED = re.compile(r"^(?:ELF|PTX) file +\d+: .*\.((?:sm|lto)_\d+[af]?)\.(cubin|ptx|ltoir)$",
                    re.MULTILINE)


def fetch_cuobjdump(folder):
    """The path of a cuobjdump from PyPI, or None."""
    command = ["uv", "pip", "install", "-q", "--target", folder, "nvidia-cuda-cuobjdump"]
    answer = subprocess.run(command, text=True, capture_output=True, check=False)
    found = sorted(pathlib.Path(folder).rglob("cuobjdump"))
    if answer.returncode != 0 or not found:
        print(f"cuobjdump was not fetched: {answer.stderr.strip()[-300:]}")
        return None
    return str(found[0])


def list_theirs(cuobjdump, path):
    """Counts by target as cuobjdump lists them, and its error messages."""
    counts, complaints = collections.Counter(), []
    for option in ("-lelf", "-lptx"):
        answer = subprocess.run([cuobjdump, option, path], text=True, capture_output=True,
                                check=False)
        for target, kind in LISTED.findall(answer.stdout):
            if (option == "-lelf") == (kind == "cubin"):
                counts[("PTX " if kind == "ptx" else "SASS ") + target] += 1
        complaints += [line for line in (answer.stdout + answer.stderr).splitlines()
                       if "fatal" in line or ("info" in line and "No " not in line)]
    return counts, complaints


def list_ours(program, path):
    """The JSON object of print_gpu_code, or None."""
    answer = subprocess.run([program, path], text=True, capture_output=True, check=False)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def as_theirs(code):
    """Our counts, with cuobjdump's names of targets."""
    counts = collections.Counter()
    for target in code["targets"]:
        if target["kind"] in ("SASS", "PTX"):
            number = re.sub(r"^\w+_", "", target["target"]).rstrip("f")
            counts[f"{target['kind']} sm_{number}"] += target["images"]
    return counts


def strip_family(counts):
    """Newer releases of cuobjdump may print the family's letter: compare without it."""
    plain = collections.Counter()
    for target, count in counts.items():
        plain[target.rstrip("f")] += count
    return plain


def compare(cuobjdump, program, path, short):
    """'same', 'different', 'not comparable' or None for no GPU code; prints the line."""
    code = list_ours(program, path)
    if code is None:
        print(f"different  {short}: anyflash does not read it")
        return "different"
    if code["translation_units"] + code["relocatable"]["translation_units"] == 0:
        return None
    ours = as_theirs(code)
    theirs, complaints = list_theirs(cuobjdump, path)
    theirs = strip_family(theirs)
    extra = sum((theirs - ours).values())
    missing = sum((ours - theirs).values())
    notes = []
    if code["empty_images"]:
        notes.append(f"{code['empty_images']} cubins without kernels")
    relocatable = code["relocatable"]
    if relocatable["images"]:
        notes.append(f"{relocatable['images']} images for a device link")
    if code["problem"]:
        notes.append(code["problem"])
    if complaints:
        verdict = "not comparable"
        notes.append(complaints[0].strip())
    elif missing == 0 and (extra == code["empty_images"]
                           or (not ours and extra == relocatable["images"])):
        verdict = "same"
    else:
        verdict = "different"
        notes.append(f"ours {dict(ours - theirs)}, theirs {dict(theirs - ours)}")
    summary = ", ".join(f"{name} {count}" for name, count in sorted(ours.items()))
    print(f"{verdict:<10} {'; '.join([f'{short}: {summary}', *notes])}", flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", required=True, dest="program", help="print_gpu_code")
    parser.add_argument("--cuobjdump", help="NVIDIA's program; else fetched by uv")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        cuobjdump = options.cuobjdump or fetch_cuobjdump(folder)
        if cuobjdump is None:
            return 3
        for root in options.folders:
            for path in sorted(pathlib.Path(root).rglob("*.so*")):
                with open(path, "rb") as file:
                    is_elf = file.read(4) == b"\x7fELF"
                if is_elf and not path.is_symlink():
                    counts[compare(cuobjdump, options.program, str(path),
                                   os.path.relpath(path, root))] += 1
    del counts[None]
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    if not counts["same"] and not counts["different"]:
        return 3
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
