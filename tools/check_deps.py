#!/usr/bin/env python3
"""Checks every #include "room/file.h" against the table of rooms in ARCHITECTURE.md.

A row says what a room is and which rooms it uses: | `room` | kind | `used`, ... | job |. Each
room names exactly the rooms that it includes directly, no rooms depend on each other in a
cycle, and a pure room uses pure rooms only. Prints each violation and exits 1, or says what was
checked.
"""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `([a-z_/]+)` \| ([a-z]+) \| ([^|]*) \|")
C_FILES = (".c", ".h", ".inc", ".cpp", ".cu", ".cuh")
TOPS = ("engine", "bindings", "kit", "page", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:engine|bindings|kit|bench)'
                     r'(?:/[a-z_0-9]+)*)/[a-z_0-9]+\.')
BELOW = {"pure": {"pure", "engine"}, "engine": {"engine"}, "binding": {"binding", "engine"}}


@functools.lru_cache
def read_table():
    """({room: kind}, {room: rooms it may use})."""
    kinds, uses = {}, {}
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        match = ROW.match(line)
        if match:
            kinds[match[1]] = match[2]
            uses[match[1]] = re.findall(r"[a-z_/]+", match[3])
    return kinds, uses


def nearest_room(path):
    """The room of a file, a path relative to the root: its folder, or the nearest one above."""
    rooms = read_table()[0]
    return next((str(folder) for folder in path.parents if str(folder) in rooms),
                str(path.parent))


def source_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", *TOPS]
    names = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    paths = (ROOT / name for name in names.stdout.splitlines())
    return [path for path in paths if path.suffix in C_FILES and path.is_file()]


def circle_of(room, uses, path=()):
    """The rooms of a dependency cycle that starts at `room`, or None."""
    if room in path:
        return path[path.index(room):] + (room,)
    found = (circle_of(used, uses, path + (room,)) for used in uses.get(room, ()))
    return next((circle for circle in found if circle), None)


def main():
    kinds, uses = read_table()
    problems, really = [], {room: set() for room in kinds}
    files = source_files()
    for path in files:
        shown = path.relative_to(ROOT)
        room = nearest_room(shown)
        if room not in kinds:
            problems.append(f"{shown}: ARCHITECTURE.md has no row for the room '{room}'")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match[1] != room:
                really[room].add(match[1])
                if match[1] not in uses[room]:
                    problems.append(f"{shown}:{number}: '{room}' may not use '{match[1]}'")
    for room, kind in kinds.items():
        for used in uses[room]:
            if used not in really[room]:
                problems.append(f"ARCHITECTURE.md: '{room}' does not use '{used}'")
            if kind in BELOW and kinds.get(used) not in BELOW[kind]:
                problems.append(f"ARCHITECTURE.md: '{room}' is {kind}, '{used}' is not")
    circle = next(filter(None, (circle_of(room, uses) for room in kinds)), None)
    if circle:
        problems.append("ARCHITECTURE.md: a circle: " + " -> ".join(circle))
    print("\n".join(problems)
          or f"{len(files)} files in {len(kinds)} rooms include only what the table allows")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
