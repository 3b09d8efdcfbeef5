#!/usr/bin/env python3
"""Checks that no figure about correctness in bench/results/ seems newer than it is.

A paragraph that counts what passed names its commit ("at commit 9d03438c"). If engine/ differs
from that commit, it must say so, in the words "has changed since". Prints what is wrong and
exits 1. A clone without that commit cannot tell, and says so.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "bench" / "results"
COUNT = re.compile(r"\b\d[\d,]* (?:of them )?pass(?:ed)?\b")
COMMIT = re.compile(r"\bat commit ([0-9a-f]{8,40})\b")
CHANGED = "has changed since"


def engine_differs(commit):
    """Whether engine/ is another one now; None: the commit is not here."""
    done = subprocess.run(["git", "-C", ROOT, "diff", "--quiet", commit, "--", "engine"],
                          stderr=subprocess.DEVNULL)
    return {0: False, 1: True}.get(done.returncode)


def problem(paragraph, differs=engine_differs):
    """What is wrong with a paragraph, or None."""
    text = " ".join(paragraph.split())
    if not COUNT.search(text):
        return None
    commits = COMMIT.findall(text)
    if not commits:
        return "counts what passed, but names no commit"
    answers = [differs(commit) for commit in commits]
    if None in answers:
        missing = commits[answers.index(None)]
        print(f"not checked, because this clone does not have it: {missing}")
        return None
    if any(answers) != (CHANGED in text):
        return (f'engine/ differs from that commit: measure again, or say "{CHANGED}"'
                if any(answers) else f'engine/ is the same, but it says "{CHANGED}"')
    return None


def main():
    wrong = 0
    for page in sorted(PAGES.glob("*.md")):
        for paragraph in page.read_text().split("\n\n"):
            said = problem(paragraph)
            if said is not None:
                print(f"{page.relative_to(ROOT)}: {said}: {paragraph.strip()[:60]!r}")
                wrong += 1
    if wrong == 0:
        print("no figure about correctness seems newer than it is")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
