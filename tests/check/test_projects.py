"""Lines of real projects, judged by hand from what was published before they were checked.

A row of projects.jsonl has the address of the file, the lines that matter, the ids of what must
be found, and why.
"""
import json
from pathlib import Path

import pytest

ROWS = [json.loads(line) for line in
        (Path(__file__).parent / "projects.jsonl").read_text().splitlines()]


def short_name(address):
    """Owner, repository and file of an address on GitHub, without the commit."""
    words = address.split("/") if "://" in address else ["", "", "", address]
    return "/".join([*words[3:5], words[-1]])


@pytest.mark.parametrize("row", ROWS, ids=[short_name(row["source"]) for row in ROWS])
def test_finds_what_was_judged(findings, row):
    assert findings(row["files"]) == row["findings"], row["why"]
