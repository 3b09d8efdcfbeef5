#!/usr/bin/env python3
"""Checks that names are unique in the tree and belong to one room.

A struct, enum or union tag and the name of a source or header file stand for one thing only.
The first word after af_ of what headers declare (tags, functions, types, macros, constants)
belongs to one room; engine/ and bench/ count as one room each. Prints each violation and exits
1, or says what was checked.
"""
import collections
import pathlib
import re
import subprocess
import sys

from check_deps import C_FILES

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPS = ("engine", "bindings", "kit", "bench")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
TAG = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) *\{", re.M)
FUNCTION = re.compile(r"^(?!typedef|#|static)[a-z][\w \n*]*?\b(af_\w+)\(", re.M)
TYPE = re.compile(r"^typedef\b[^;]*?\b(af_\w+)(?:\)|\(|;)", re.M)
MACRO = re.compile(r"^#define (AF_\w+)", re.M)
CONSTANT = re.compile(r"^    (AF_\w+)(?: *=[^,\n]*)?,?(?: */\*|$)", re.M)


def source_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", *TOPS]
    names = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    paths = (ROOT / name for name in names.stdout.splitlines())
    return [path for path in paths if path.suffix in C_FILES and path.is_file()]


def room_of(path):
    parts = path.relative_to(ROOT).parent.parts
    return parts[0] if parts[0] in ("engine", "bench") else "/".join(parts)


def declared(text):
    """Names that the header `text` declares, without its include guard."""
    for pattern in (TAG, FUNCTION, TYPE, MACRO, CONSTANT):
        for name in pattern.findall(text):
            if re.match(r"af_", name, re.I) and not re.fullmatch(r"AF_\w+_H", name):
                yield name


def main():
    tags, names = collections.defaultdict(set), collections.defaultdict(set)
    prefixes = collections.defaultdict(lambda: collections.defaultdict(str))
    files = source_files()
    for path in files:
        text = COMMENT.sub("", path.read_text())
        shown = str(path.relative_to(ROOT))
        names[path.name].add(shown)
        for tag in TAG.findall(text):
            if tag.startswith("af_"):
                tags[tag].add(shown)
        template = shown.startswith("engine/cpu") # macros of the kernels' templates are local
        for name in declared(text) if path.suffix == ".h" else ():
            if not (template and name.isupper()):
                prefixes[name.split("_")[1].lower()].setdefault(room_of(path), name)
    problems = [f"tag '{tag}': {', '.join(sorted(where))}"
                for tag, where in sorted(tags.items()) if len(where) > 1]
    problems += [f"file name '{name}': {', '.join(sorted(where))}"
                 for name, where in sorted(names.items()) if len(where) > 1]
    for prefix, rooms in sorted(prefixes.items()):
        if len(rooms) > 1:
            uses = ", ".join(f"{room} ({name})" for room, name in sorted(rooms.items()))
            problems.append(f"prefix 'af_{prefix}_': {uses}")
    count = len(tags)
    print("\n".join(problems) or f"{count} tags, {len(names)} file names and "
          f"{len(prefixes)} prefixes are unique")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
