#!/usr/bin/env python3
"""Compares anyflash's proofs with imports in real environments, also for wheels that were not
used to develop its rules.

Downloads the wheels of other_wheels.txt (3 GB, once), from which no rule was derived. For each
torch it creates an environment, proves every library of these wheels and of builds.py against
it, and imports each one there in a child process. Then it runs the builds of layoutprobe.cpp
(layout.py). Prints each disagreement and a table. Exit code: 0 no disagreement, 1 some, 3 an
environment could not be created.

Environments are created with uv for Python 3.11, 5 GB each, one after another, and removed
again; --against uses an existing one instead. Only torch is installed. Of a wheel only the
libraries are used, not its name and METADATA.
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

import compare
import layout
import prove
import wheels

HERE = pathlib.Path(__file__).resolve().parent
TORCHES = ("2.4.1", "2.6.0", "2.9.1", "2.11.0", "2.15.0")
HEAD = ("| where | imports, and does | does not, and is refused | unknown | wrong |\n"
        "|---|---|---|---|---|")


def wheel_folders():
    """A folder with the libraries of each wheel of other_wheels.txt."""
    lines = (HERE / "other_wheels.txt").read_text().splitlines()
    return [wheels.keep(line, wheels.CACHE / "others" / line,
                        lambda member: re.search(r"\.so(\.\d+)*$", member))
            for line in lines if line and not line.startswith("#")]


def row_of(name, results):
    """The table's line for one environment."""
    counts = collections.Counter((proof.get("imports", "no"), real["loads"])
                                 for _, proof, real in results)
    unknown = counts["unknown", True] + counts["unknown", False]
    wrong = counts["yes", False] + counts["no", True]
    return f"| {name} | {counts['yes', True]} | {counts['no', False]} | {unknown} | {wrong} |"


def attempt(options, environment, files):
    """Prints the disagreements there; their number, and the line of the table."""
    results = prove.examine(options.anyflash, environment, files)
    wrong = prove.report(environment, results, options.verbose)
    wrong += layout.compare(options.anyflash, environment)
    return wrong, row_of(environment, results)


def attempt_with(options, torch, files):
    """The same in a temporary environment with that torch; None if it could not be created."""
    with tempfile.TemporaryDirectory(prefix="anyflash-torch-", dir=options.work) as folder:
        environment = pathlib.Path(folder) / f"torch-{torch}"
        problem = compare.make_environment(environment, torch, ("3.11",))
        if problem:
            print(f"torch {torch}: {problem}")
            return None
        return attempt(options, environment, files)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--against", action="append", default=[], help="an environment")
    parser.add_argument("--torch", action="append", help=f"default: {', '.join(TORCHES)}")
    parser.add_argument("--work", help="folder for the environments, best beside uv's cache")
    parser.add_argument("--verbose", action="store_true", help="print every file")
    options = parser.parse_args()
    files = prove.libraries([*wheel_folders(), wheels.CACHE / "built"])
    torches = options.torch or ([] if options.against else TORCHES)
    done = [attempt(options, environment, files) for environment in options.against]
    done += [attempt_with(options, torch, files) for torch in torches]
    print("", HEAD, *(one[1] for one in done if one), sep="\n")
    if any(one and one[0] for one in done):
        return 1
    return 3 if None in done else 0


if __name__ == "__main__":
    sys.exit(main())
