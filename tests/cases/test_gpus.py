"""GPUs, torch releases and systems as facts, one machine a line: the decision and what it says.

gpus.jsonl: "given" are the facts, "decision" the way that `plan` recommends, "says" texts
that a person must find in the answer: the wheel, the command, or why there is none; "says_not"
those that must not be there.
"""
import json

import pytest

import cases

ROWS = cases.load("gpus.jsonl")


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_plan__names_what_is_fast_on_this_gpu(row):
    words = ["plan", *(f"--given={fact}" for fact in row["given"])]
    words += ["--package", row["package"]] if "package" in row else []
    code, out, err = cases.run(*words, "--json")
    assert code == (row["decision"] is None) # a fact is missing that decides
    assert json.loads(out)["decision"] == row["decision"], err
    _, text, _ = cases.run(*words)
    text = " ".join(text.replace("\\\n", "").split())
    missing = [what for what in row["says"] if what not in text]
    assert not missing, f"{missing} not in\n{text}"
    wrong = [what for what in row.get("says_not", []) if what in text]
    assert not wrong, f"{wrong} in\n{text}"


def test_rows__cover_the_gpus_that_are_asked_about():
    assert len(ROWS) >= 40 and len({row["name"] for row in ROWS}) == len(ROWS)
