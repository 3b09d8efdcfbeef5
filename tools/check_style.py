#!/usr/bin/env python3
"""Checks what clang-format cannot: file heads, lengths, and words that must not appear.

Prints each problem as path:line and exits 1, or says what was checked.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_COLUMNS = 96
MAX_LINES = 700
FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(?:work|root|home/[a-z]+)/"), "an absolute path of a machine"),
    (re.compile(r"py" r"pi\.org|python" r"hosted|download\.py" r"torch"),
     "a package index's host name"),
    (re.compile(r"^(?:<{7}|>{7})(?: |$)"), "the mark of an unresolved merge"),
    (re.compile(r"\bTO" r"DO\b|\bFIX" r"ME\b|\bX" r"XX\b"), "unfinished work"),
]
RAW_FOLDERS = ("data",)
RAW_TESTS = (("tests", "cases"), ("tests", "doctor"), ("tests", "fuzz"))
CODE = (".c", ".h", ".inc", ".cpp", ".cu", ".cuh", ".py", ".cmake")


def tracked_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def check_code(path, lines):
    yield from ((0, f"{len(lines)} lines; is it one thing?")
                for _ in [0] if len(lines) > MAX_LINES and path.suffix != ".inc")
    if path.suffix not in (".py", ".cmake") and not lines[0].startswith("/*"):
        yield 1, "the first comment must say the file's job"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns"
        if "\t" in line:
            yield number, "a tab"


def check_text(path, lines):
    for number, line in enumerate(lines, 1):
        if line.rstrip() != line:
            yield number, "blanks at the end"
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield number, what


def main():
    problems = []
    checked = 0
    for path in tracked_files():
        relative = path.relative_to(ROOT)
        if relative.parts[0] in RAW_FOLDERS or (relative.parts[:2] in RAW_TESTS
                                                and path.suffix not in CODE):
            continue
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        checked += 1
        found = list(check_text(path, lines)) if path.suffix != ".golden" else []
        if path.suffix in CODE and lines:
            found += check_code(path, lines)
        problems += [f"{relative}:{number}: {what}" for number, what in found]
    print("\n".join(problems) or f"{checked} files are in style")
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
