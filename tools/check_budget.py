#!/usr/bin/env python3
"""Checks that no room has more lines or files than tools/budget.tsv allows.

A room is a row of ARCHITECTURE.md; `python` and `tests` are counted as a whole. A change that
needs more raises the number in the same commit and says in its message what went instead.
Prints each room over its budget and exits 1, or says what was counted; --write sets every
budget to what is there and 2 percent.
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
    """{room: [lines, files]}."""
    command = ["git", "ls-files", "-co", "--exclude-standard", *TOPS, "include", *WHOLE]
    listing = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    found = collections.defaultdict(lambda: [0, 0])
    for name in listing.stdout.splitlines():
        room = room_of(name)
        if room and (ROOT / name).is_file():
            found[room][0] += (ROOT / name).read_bytes().count(b"\n")
            found[room][1] += 1
    return dict(sorted(found.items()))


def read_budget():
    rows = (line.split("\t") for line in BUDGET.read_text().splitlines()[1:])
    return {room: [int(lines), int(files)] for room, lines, files in rows}


def with_room_to_move(number):
    return number + number // 50


def write_budget(found):
    rows = ["room\tlines\tfiles"]
    rows += [f"{room}\t{with_room_to_move(lines)}\t{with_room_to_move(files)}"
             for room, (lines, files) in found.items()]
    BUDGET.write_text("\n".join(rows) + "\n")


def problems_of(found, budget):
    for room, counted in found.items():
        for number, most, what in zip(counted, budget.get(room, [0, 0]), ("lines", "files")):
            if number > most:
                yield f"{room}: {number} {what}, {most} allowed by tools/budget.tsv"
    for room in budget.keys() - found.keys():
        yield f"tools/budget.tsv: there is no room '{room}'"


def main():
    found = count()
    if sys.argv[1:] == ["--write"]:
        write_budget(found)
    problems = sorted(problems_of(found, read_budget()))
    lines, files = (sum(row[column] for row in found.values()) for column in (0, 1))
    print("\n".join(problems) or f"{lines} lines in {files} files are within the budget")
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main())
