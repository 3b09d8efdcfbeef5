#!/usr/bin/env python3
"""Records the logs of make_logs.py for the quick tier, without anything private.

    record.py FOLDER

Reads FOLDER/scenarios.json and its logs and writes logs.jsonl: folders, users, hosts,
ports and times become placeholders, and a log that is too long loses lines from its middle;
those near an error stay.
"""

import json
import os
import pathlib
import platform
import re
import socket
import sys

import logs

MOST = {"failures": 18 << 10, "healthy": 5 << 10}
LONGEST_LINE = 1500
# Logs that describe the machine on which they were made; the tier doctor makes its own.
OF_THIS_MACHINE = ("healthy/system-", "healthy/apt-", "healthy/dpkg-l", "healthy/torch-collect")
TELLING = re.compile(
    r"error|fatal|killed|no module|undefined|cannot|failed|not found|mismatch"
    r"|exception|denied|refused|warning: |no space|unsupported",
    re.IGNORECASE,
)
ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = "/home/" + "user"


def replacements(folder, kind, name):
    """Pairs of a pattern and its replacement, applied in this order."""
    work = f"{re.escape(str(folder / 'work'))}/(?:{kind}/)?{re.escape(name)}"
    home = re.escape(os.path.expanduser("~"))
    return [
        (work + r"/(?:small/)?(\.?venv)\b", HOME + r"/\1"),
        (re.escape(str(folder / "envs")) + r"/torch-[\d.]+", HOME + "/venv"),
        (work, HOME + "/project"),
        (re.escape(str(folder / "work" / kind)), HOME),
        (re.escape(str(folder / "bin")), HOME + "/.local/bin"),
        (re.escape(str(folder)), HOME + "/logs"),
        (re.escape(str(ROOT)), HOME + "/src"),
        (home + r"(?=/|\b)", HOME),
        (r"/opt/wheels", HOME + "/wheels"),
        (
            r"(?:[\w-]+\.)*(?:p"
            r"ypi\.org|py"
            r"thonhosted\.org|py"
            r"pi\.python\.org|"
            r"download\.py"
            r"torch\.org)",
            "index.example",
        ),
        (
            r"(?:deb|security)\.debian\.org|registry\.npmjs\.org|(?:static\.)?crates\.io",
            "mirror.example",
        ),
        (r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0):\d{4,5}", "127.0.0.1:8080"),
        (r"port=\d{5}", "port=8080"),
        (r"\b20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d", r"2024-05-06\g<1>07:08:09"),
        (
            (
                r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d("
                r" [A-Z+0-9]+)? 20\d\d"
            ),
            r"Mon May 6 07:08:09\1 2024",
        ),
        (r"\b[A-Z][a-z]{2} +\d{1,2} +\d\d:\d\d\b", "May  6 07:08"),
        (re.escape(platform.release()), "6.1.0-40-amd64"),
        (r"\b" + re.escape(socket.gethostname()) + r"\b", "host"),
    ]


def scrub(text, folder, kind, name):
    for pattern, instead in replacements(folder, kind, name):
        text = re.sub(pattern, instead, text)
    return text


def shorten(line):
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else line[:half] + " ... " + line[-half:]


def choose(lines, most):
    """The lines that stay: those near an error, the last ones and the first ones."""
    chosen = set()
    left = most

    def take(numbers):
        nonlocal left
        for number in numbers:
            size = len(lines[number].encode()) + 1
            if number not in chosen and left >= size:
                chosen.add(number)
                left -= size

    last = len(lines) - 1
    take(range(0, min(len(lines), 12)))
    take(range(last, max(last - 25, -1), -1))
    for number, line in enumerate(lines):
        if TELLING.search(line) and left > most // 4:
            take(range(max(number - 3, 0), min(number + 4, len(lines))))
    take(range(last, -1, -1))
    return sorted(chosen)


def cut(text, most):
    """The text cut to at most that many bytes; a line in brackets marks removed lines."""
    lines = [shorten(line) for line in text.split("\n")]
    if len("\n".join(lines).encode()) <= most:
        return "\n".join(lines)
    kept, before = [], -1
    for number in choose(lines, most - 1024):
        if number != before + 1 and len(kept) < 200:
            kept.append(f"[... {number - before - 1} lines ...]")
        kept.append(lines[number])
        before = number
    return "\n".join(kept) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    rows = {
        name: row
        for name, row in json.loads((folder / "scenarios.json").read_text()).items()
        if not name.startswith(OF_THIS_MACHINE)
    }
    for name, row in rows.items():
        kind, _, plain = name.partition("/")
        text = (folder / f"{name}.log").read_bytes().decode("utf-8", "replace")
        row["text"] = cut(scrub(text.replace("\0", "?"), folder, kind, plain), MOST[kind])
    logs.write(rows)
    print(f"{len(rows)} logs, {sum(len(row['text'].encode()) for row in rows.values())} bytes")


if __name__ == "__main__":
    sys.exit(main())
