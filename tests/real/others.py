#!/usr/bin/env python3
"""Is what anyflash proves of wheels true that none of its rules was made from?

Fetches the wheels of others.txt (3 GB, once), and for every torch makes an environment, proves
every library of the wheels and of builds.py beside it, and then really imports it there, each in
a child of its own. Prints each disagreement and a table. Ends 0 without disagreement, 1 with
one, 3 when an environment could not be made.

Environments are made with uv for Python 3.11, 5 GB each, one after another; --against takes one
that is there instead. Nothing is installed but torch: of a wheel only the libraries are looked
at, as if its name said nothing.
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

import compare
import prove
import wheels

HERE = pathlib.Path(__file__).resolve().parent
TORCHES = ("2.4.1", "2.6.0", "2.9.1", "2.11.0", "2.15.0")


def wheel_folders():
    """A folder with the libraries of each wheel of others.txt."""
    lines = (HERE / "others.txt").read_text().splitlines()
    return [wheels.keep(line, wheels.CACHE / "others" / line,
                        lambda member: re.search(r"\.so(\.\d+)*$", member))
            for line in lines if line and not line.startswith("#")]


def row_of(results):
    """Counts of one environment by what was proved and what happened."""
    return collections.Counter(
        (proof.get("imports", "no"), "loads" if real["loads"] else "fails")
        for _, proof, real in results)


def try_environment(options, environment, files):
    """Prints what disagrees there; the counts and the number of disagreements."""
    results = prove.examine(options.anyflash, environment, files)
    wrong = prove.report(environment, results, options.verbose)
    return row_of(results), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--against", action="append", default=[], help="an environment")
    parser.add_argument("--torch", action="append", help=f"default: {', '.join(TORCHES)}")
    parser.add_argument("--verbose", action="store_true", help="print every file")
    options = parser.parse_args()
    files = prove.libraries([*wheel_folders(), wheels.CACHE / "built"])
    rows, wrong, unmade = {}, 0, 0
    for environment in options.against:
        rows[environment], more = try_environment(options, environment, files)
        wrong += more
    for torch in options.torch or ([] if options.against else TORCHES):
        with tempfile.TemporaryDirectory(prefix="anyflash-torch-") as folder:
            problem = compare.make_environment(pathlib.Path(folder), torch, ("3.11",))
            if problem:
                print(f"torch {torch}: {problem}")
                unmade += 1
                continue
            rows[f"torch {torch}"], more = try_environment(options, folder, files)
            wrong += more
    print("\n| where | imports: yes, does | no, does not | unknown | wrong |\n|---|---|---|---|---|")
    for name, row in rows.items():
        unknown = row["unknown", "loads"] + row["unknown", "fails"]
        print(f"| {name} | {row['yes', 'loads']} | {row['no', 'fails']} | {unknown} | "
              f"{row['yes', 'fails'] + row['no', 'loads']} |")
    return 1 if wrong else 3 if unmade else 0


if __name__ == "__main__":
    sys.exit(main())
