#!/usr/bin/env python3
"""Writes the causes of data/causes.jsonl into docs/guide/troubleshoot.md.

  make_troubleshoot.py [--check]

What stands above the line MARK in that page is written by hand; what follows is replaced.
--check writes nothing and exits 1 if the page is out of date.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/guide/troubleshoot.md"
CAUSES = ROOT / "data/causes.jsonl"
MARK = "<!-- The rest is written by tools/make_troubleshoot.py from data/causes.jsonl. -->"
HEADINGS = {
    "resolve": "While versions are chosen",
    "build-deps": "Before anything is compiled",
    "build": "While it is compiled",
    "install": "While it is installed",
    "import": "When it is imported",
    "run": "When it is called",
}


def cause_lines(cause):
    title = cause["title"][0].upper() + cause["title"][1:]
    yield f"#### {cause['id']}"
    yield ""
    yield f"**{title}.** {cause['why']}"
    yield ""
    yield f"- Next: `{cause['next']}`"
    yield f"- {cause['fix']}"
    if "avoid" in cause:
        yield f"- {cause['avoid']}"
    yield ""


def generated():
    causes = [json.loads(line) for line in CAUSES.read_text(encoding="utf-8").splitlines()]
    lines = [MARK, "", "## Every cause, by when it shows", "",
             "`anyflash doctor LOG` names one of these; `anyflash doctor --explain ID` prints "
             "it.",
             ""]
    for phase, heading in HEADINGS.items():
        lines += [f"### {heading}", ""]
        for cause in causes:
            if cause["phases"][0] == phase:
                lines += cause_lines(cause)
    return "\n".join(lines).rstrip() + "\n"


def page_text():
    by_hand = PAGE.read_text(encoding="utf-8").split(MARK)[0].rstrip()
    return f"{by_hand}\n\n{generated()}"


def main():
    text = page_text()
    if "--check" in sys.argv[1:]:
        if text == PAGE.read_text(encoding="utf-8"):
            return 0
        print(f"{PAGE.relative_to(ROOT)} is out of date: run tools/make_troubleshoot.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
