#!/usr/bin/env python3
"""Compares the facts that anyflash reads from files with what Python itself reports.

First it compares every installed Python. Then it creates environments with uv, one after
another (hard links from uv's cache), asks Python and anyflash, prints every difference and
removes the environment. Needs uv, readelf, PyPI, and about 8 GB of disk beside uv's cache.
Exit code: 0 no difference, 1 a difference, 3 an environment could not be created.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# torch, and the Pythons to try in this order
ENVIRONMENTS = [("2.4.1", ("3.11", "3.12")), ("2.6.0", ("3.12", "3.11")),
                ("2.8.0", ("3.13", "3.11")), ("2.11.0", ("3.12", "3.11")),
                ("2.15.0", ("3.13", "3.11"))]
DISK_BYTES = 8 * 2**30


def find_python(wanted):
    """The path of an installed Python of the version `wanted`, or None."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    for path in sorted(root.glob(f"versions/{wanted}.*/bin/python{wanted}")):
        return str(path)
    answer = subprocess.run(["uv", "python", "find", "--no-python-downloads", wanted],
                            text=True, capture_output=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None


def make_environment(folder, torch, pythons):
    """A virtual environment with that torch, or a sentence that says why there is none."""
    found = [path for path in map(find_python, pythons) if path]
    if not found:
        return f"none of Python {', '.join(pythons)} is installed"
    interpreter = str(folder / "bin" / "python")
    for command in (["uv", "venv", "-q", "--python", found[0], str(folder)],
                    ["uv", "pip", "install", "-q", "--python", interpreter, f"torch=={torch}",
                     "numpy", "packaging==26.3", "accelerate"]):
        answer = subprocess.run(command, text=True, capture_output=True, check=False)
        if answer.returncode != 0:
            return f"{command[1]} failed: {answer.stderr.strip()[-400:]}"
    return None


def value_of(document, name):
    """A fact's value in a machine record: the value, null, or why it is unknown."""
    group, member = name.split(".")
    fact = document.get(group, {}).get(member)
    if isinstance(fact, dict):
        return fact["value"] if "value" in fact else fact
    return fact


def all_tags(print_tags, document):
    """The full tag list that the record's interpreter accepts."""
    version = value_of(document, "python.version").split(".")
    platforms = value_of(document, "python.platform_tags")
    command = [str(print_tags), version[0], version[1], value_of(document, "python.abi_flags")]
    return subprocess.run(command + platforms, text=True, capture_output=True,
                          check=True).stdout.split()


def ask(anyflash, python, *words):
    """What the interpreter reports, and anyflash's record; or None and the reason."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run([python, str(HERE / "question.py"), *words], text=True,
                          capture_output=True, check=False, env=environment)
    read = subprocess.run([anyflash, "machine", "--python", python], text=True,
                          capture_output=True, check=False, env=environment)
    if said.returncode != 0 or read.returncode != 0:
        return None, f"no answer: {(said.stderr + read.stderr)[-600:]}"
    return json.loads(said.stdout), json.loads(read.stdout)


def same_facts(truth, document):
    """(name, Python's value, anyflash's value) of every fact of a record."""
    return [(name, value, value_of(document, name))
            for name, value in truth.items() if "." in name]


def environment_facts(print_tags, truth, document):
    """Also compared, in addition to the record's facts: C library, tags, packages."""
    libc = [value_of(document, "platform.libc"), value_of(document, "platform.libc_version")]
    packages = document.get("packages") or []
    rows = [{"package": row} for row in packages] if isinstance(packages, list) else []
    found = sorted(value_of(row, "package.name") for row in rows
                   if isinstance(value_of(row, "package.needs_torch"), str))
    return [("platform.libc", truth["libc"], libc),
            ("tags", truth["tags"], all_tags(print_tags, document)),
            ("packages that need torch", truth["needing_torch"], found)]


def report(title, pairs, seconds):
    """Prints the differences; True if there are none."""
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    print(f"{title}: {len(pairs)} facts, {len(differing)} differences ({seconds:.0f} s)",
          flush=True)
    for name, value, read in differing:
        print(f"  {name}: Python says {value!r}, anyflash reads {read!r}")
    return not differing


def compare_interpreters(anyflash):
    """Compares pyenv's Pythons and the system's; 1 if one differs."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    pythons = [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    pythons += [path for path in ("/usr/bin/python3",) if os.path.exists(path)]
    worst = 0
    for python in pythons:
        truth, document = ask(anyflash, python)
        pairs = [("answer", "", document)] if truth is None else same_facts(truth, document)
        worst |= 0 if report(python, pairs, 0) else 1
    return worst


def compare_environment(anyflash, folder, torch, pythons):
    """Creates, compares and removes one environment; an exit code as above."""
    started = time.monotonic()
    try:
        problem = make_environment(folder, torch, pythons)
        truth, document = (None, problem) if problem else \
            ask(str(anyflash), str(folder / "bin" / "python"), "--torch")
        if truth is None:
            print(f"torch {torch}: {document}", flush=True)
            return 3
        pairs = same_facts(truth, document)
        pairs += environment_facts(anyflash.parent / "tests" / "print_tags", truth, document)
        return 0 if report(f"torch {torch}", pairs, time.monotonic() - started) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anyflash", required=True, help="the built program")
    parser.add_argument("--work", help="folder for the environments, best beside uv's cache")
    parser.add_argument("--torch", action="append", help="only this torch; may be repeated")
    options = parser.parse_args()
    anyflash = pathlib.Path(options.anyflash).resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="anyflash-real-", dir=options.work)).resolve()
    worst = compare_interpreters(str(anyflash))
    for torch, pythons in ENVIRONMENTS:
        if options.torch and torch not in options.torch:
            continue
        if shutil.disk_usage(work).free < DISK_BYTES:
            print(f"torch {torch}: less than {DISK_BYTES >> 30} GiB are free in {work}")
            worst = 3
            continue
        folder = work / f"torch-{torch}"
        worst = max(worst, compare_environment(anyflash, folder, torch, pythons))
    shutil.rmtree(work, ignore_errors=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
