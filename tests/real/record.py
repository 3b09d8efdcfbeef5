#!/usr/bin/env python3
"""Records what happens when libraries of aarch64 wheels are imported, for proof.py.

    tests/real/record.py ROOT WHEEL... > rows.jsonl

ROOT is a Debian 12 for arm64 with python3, which this system can run (qemu-user-static), and
in which /t/VERSION is an unpacked torch and /t/deps what torch imports, for example:

    debootstrap --arch=arm64 --include=python3 bookworm ROOT
    pip install --target ROOT/t/2.9.1 --no-deps --platform manylinux_2_28_aarch64 \\
        --python-version 3.11 --only-binary=:all: torch==2.9.1

A WHEEL is a file's name without ".whl"; it is downloaded. With each torch every library of the
wheels is imported in a process of its own (try_load.py). Of those that fail, the loader of ROOT
lists the missing libraries and names, as `ldd -r` does.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import wheels

HERE = pathlib.Path(__file__).resolve().parent
LOADER = "/lib/ld-linux-aarch64.so.1"
NAMES_MAX = 20


def run(root, variables, command):
    words = ["chroot", str(root), "env", *map("=".join, variables.items()), *command]
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False).stdout


def copy_libraries(root, wheel):
    """The libraries of the wheel inside ROOT, without those that it bundles for itself."""
    folder = wheels.libraries(wheel)
    inside = root / "x" / wheel
    if not inside.is_dir():
        shutil.copytree(folder, inside)
    return sorted("/" + str(path.relative_to(root)) for path in inside.rglob("*.so*")
                  if ".libs/" not in str(path))


def imported(root, torch, paths):
    """{path: (whether it was imported, the error)}."""
    shutil.copy(HERE / "try_load.py", root / "x")
    said = run(root, {"PYTHONPATH": f"/t/{torch}:/t/deps"},
               ["python3", "/x/try_load.py", *paths])
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {line["path"]: (line["loads"], line["error"]) for line in lines}


def missing(root, torch, path):
    """The libraries and names that the loader does not find; Python's are in the program."""
    own = f"/t/{torch}/torch/lib"
    said = run(root, {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes", "LD_BIND_NOW": "yes",
                      "LD_PRELOAD": f"{own}/libtorch_global_deps.so",
                      "LD_LIBRARY_PATH": f"{own}:/t/{torch}/torch.libs"}, [LOADER, path])
    libraries = re.findall(r"(\S+) => not found", said)
    names = re.findall(r"undefined symbol: ([^\s,]+)", said)
    return (list(dict.fromkeys(libraries)),
            [name for name in dict.fromkeys(names) if not re.match("_?Py", name)])


def facts_of(path):
    wanted = subprocess.run(["nm", "-D", "--undefined-only", path], text=True,
                            capture_output=True, check=True).stdout.splitlines()
    needed = subprocess.run(["readelf", "-dW", path], text=True, capture_output=True,
                            check=True).stdout
    return {"undefined": sum(line.split()[-2] == "U" for line in wanted),
            "needed": re.findall(r"\(NEEDED\).*\[(.*)\]", needed)}


def record(root, torches, paths, results):
    """One line of proof_cases.jsonl for each path."""
    for path in paths:
        wheel, _, file = path.removeprefix("/x/").partition("/")
        case = {"name": f"{wheel}/{file.rpartition('/')[2]}", **facts_of(root / path[1:]),
                "names": [], "rows": []}
        for torch in torches:
            loads, error = results[torch][path]
            row = [torch, "aarch64", loads]
            if not loads:
                libraries, names = missing(root, torch, path)
                shown = names[:NAMES_MAX]
                case["names"] += [name for name in shown if name not in case["names"]]
                row += [libraries, len(names), [case["names"].index(name) for name in shown]]
                row += [] if libraries or names else [error.splitlines()[0][:200]]
            case["rows"].append(row)
        print(json.dumps(case, separators=(",", ":")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("wheels", nargs="+")
    arguments = parser.parse_args()
    torches = sorted((path.name for path in (arguments.root / "t").iterdir()
                      if path.name != "deps"),
                     key=lambda name: [int(part) for part in name.split(".")])
    paths = [path for wheel in arguments.wheels
             for path in copy_libraries(arguments.root, wheel)]
    results = {}
    for torch in torches:
        results[torch] = imported(arguments.root, torch, paths)
        print(f"torch {torch}: {sum(loads for loads, _ in results[torch].values())} of "
              f"{len(paths)} imported", file=sys.stderr, flush=True)
    record(arguments.root, torches, paths, results)


if __name__ == "__main__":
    main()
