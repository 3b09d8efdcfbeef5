#!/usr/bin/env python3
"""Checks that no room has more lines than tools/budget.tsv allows.

A room is a row of ARCHITECTURE.md; `python` and `tests` are counted as a whole. A change that
needs more raises the number in the same commit, whose message says which capability pays for
it. Prints each room over its budget and exits 1, or says what was counted.
"""
import collections
import pathlib
import subprocess
import sys

from check_deps import C_FILES, TOPS, nearest_room

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = ROOT / "tools" / "budget.tsv"
WHOLE = ("python", "tests")


def room_of(name):
    """The room that counts the file `name`, or None."""
    path = pathlib.PurePosixPath(name)
    if path.parts[0] in WHOLE:
        return path.parts[0]
    return nearest_room(path) if path.suffix in C_FILES else None


def count():
    """{room: lines}."""
    command = ["git", "ls-files", "-co", "--exclude-standard", *TOPS, "include", *WHOLE]
    listing = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    found = collections.Counter()
    for name in listing.stdout.splitlines():
        room = room_of(name)
        if room and (ROOT / name).is_file():
            found[room] += (ROOT / name).read_bytes().count(b"\n")
    return found


def read_budget():
    rows = (line.split("\t") for line in BUDGET.read_text().splitlines()[1:])
    return {room: int(lines) for room, lines in rows}


def problems_of(found, budget):
    for room, lines in found.items():
        if lines > budget.get(room, 0):
            yield f"{room}: {lines} lines, {budget.get(room, 0)} allowed by tools/budget.tsv"
    for room in budget.keys() - found.keys():
        yield f"tools/budget.tsv: there is no room '{room}'"


def main():
    found = count()
    problems = sorted(problems_of(found, read_budget()))
    print("\n".join(problems) or f"{sum(found.values())} lines are within the budget")
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main())
