#!/usr/bin/env python3
"""The recorded logs, which are in logs.jsonl: one row for each, sorted by name.

    logs.py list [PATTERN]           prints names, causes and how each log was made
    logs.py show NAME                prints a log
    logs.py put NAME FILE [ROW]      replaces a log; ROW says what the doctor must say about it,
                                     as JSON with how, causes, least and given
    logs.py remove NAME
    logs.py unpack FOLDER            writes FOLDER/NAME.log
"""
import fnmatch
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().with_name("logs.jsonl")
EXPECTED = {"how", "causes", "least", "given"}


def read():
    """The rows by name, each with `text` and what scenarios.json has (make_logs.py)."""
    with FILE.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return {row.pop("name"): row for row in rows}


def write(rows):
    lines = [json.dumps({"name": name, **row}, ensure_ascii=False) + "\n"
             for name, row in sorted(rows.items())]
    FILE.write_text("".join(lines), encoding="utf-8")


def show_list(pattern="*"):
    for name, row in read().items():
        if fnmatch.fnmatch(name, pattern):
            print(f"{name:48} {','.join(row['causes']) or '-':26} {row['how']}")


def show(name):
    sys.stdout.buffer.write(read()[name]["text"].encode())


def put(name, file, expected="{}"):
    rows = read()
    row = {**rows.get(name, {}), **json.loads(expected)}
    row["text"] = pathlib.Path(file).read_bytes().decode("utf-8", "replace")
    if row.keys() != EXPECTED | {"text"}:
        sys.exit(f"error: the row of '{name}' must have {', '.join(sorted(EXPECTED))}")
    write({**rows, name: row})


def remove(name):
    rows = read()
    del rows[name]
    write(rows)


def unpack(folder):
    """Writes all logs; their paths, sorted."""
    paths = []
    for name, row in read().items():
        paths.append(pathlib.Path(folder, f"{name}.log"))
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(row["text"].encode())
    return paths


COMMANDS = {"list": show_list, "show": show, "put": put, "remove": remove, "unpack": unpack}

if __name__ == "__main__":
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except (IndexError, TypeError):
        sys.exit(__doc__)
    except KeyError as name:
        sys.exit(f"error: there is no {name}")
