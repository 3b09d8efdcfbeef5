#!/usr/bin/env python3
"""Changes one operator of a room at a time and says which tests notice: `tests/run mutate`.

    mutate.py BUILD COUNT SEED ROOM ...

Each of COUNT mutants of a room is built in a copy of the tree, BUILD, and the room's own tests
run first; the suites that run the program follow only if these notice nothing. What survives
is code that no test looks at, or a change that makes no difference: read it.
"""
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ["cases", "cli", "doctor", "install"]
CHANGES = [(r" == ", " != "), (r" != ", " == "), (r" < ", " <= "), (r" > ", " >= "),
           (r" <= ", " < "), (r" >= ", " > "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" \+ ", " - "), (r" - ", " + "), (r"\btrue;", "false;"), (r"\bfalse;", "true;"),
           (r"\bcontinue;", "break;")]
# Comments, texts, the preprocessor, and what happens without memory, which has its own tests.
SKIPPED = re.compile(r"failed|fail_memory|NULL|_Static_assert|#|^\s*(/?\*|\")")


def places(room):
    """Each (file, number of the line, changed line) of the code of `room`."""
    for path in sorted((ROOT / room).glob("*.c")):
        for number, line in enumerate(path.read_text().splitlines()):
            if SKIPPED.search(line):
                continue
            for pattern, other in CHANGES:
                for match in re.finditer(pattern, line.split("/*")[0]):
                    yield path, number, line[:match.start()] + other + line[match.end():]


def run(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def who_notices(build, room):
    """The suite that fails first; "compiler" if nothing can be built, None if all pass."""
    if not run("ninja", "-C", build):
        return "compiler"
    for suite in [room, *SUITES]:
        if not run("ctest", "--test-dir", build, "-j2", "--stop-on-failure", "-R",
                   f"^{suite}(/|$)"):
            return suite
    return None


def mutate(build, room, place):
    path, number, line = place
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    lines[number] = line + "\n"
    try:
        path.write_text("".join(lines))
        noticed = who_notices(build, room)
    finally:
        path.write_text(text)
    shown = f"{path.relative_to(ROOT)}:{number + 1}: {line.strip()}"
    print(f"{noticed or 'NOBODY':20} {shown}", flush=True)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    build, count, seed, *rooms = sys.argv[1:]
    print(f"seed {seed}")
    for room in rooms:
        found = list(places(room))
        for place in random.Random(f"{seed} {room}").sample(found, min(int(count), len(found))):
            mutate(build, room, place)


if __name__ == "__main__":
    main()
