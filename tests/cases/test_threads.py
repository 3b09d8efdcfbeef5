"""Failures that people reported: from the stated facts the program must name the cause."""
import pytest

import cases

SCENARIOS = {row["id"]: row for row in cases.load("threads.jsonl")}


def ask(scenario):
    """(ids that the program names, decision, answer for the checked wheel)"""
    words = scenario["ask"].split()
    if words[0] == "wheel":
        words = ["plan", "--wheel", words[1]]
    given = [word for fact in scenario["given"] for word in ("--given", fact)]
    code, out, err = cases.run(*words, "--json", *given)
    assert code in (0, 1), err
    said = cases.json.loads(out)
    if "verdict" in said:
        return cases.reason_ids(said["machines"][0]["reasons"]), None, said["verdict"]
    ids = cases.reason_ids(said.get("findings", []))
    for rung in said.get("rungs", []):
        if rung["name"] == "wheel":
            ids |= cases.reason_ids(rung["reasons"])
    return ids, said.get("decision"), None


def errors_of(scenario):
    expect = scenario["expect"]
    ids, decision, answer = ask(scenario)
    errors = []
    if not set(expect["any_of"]) & ids:
        errors.append(f"none of {expect['any_of']} among {sorted(ids)}")
    if "decision" in expect and decision != expect["decision"]:
        errors.append(f"decision is {decision}, expected {expect['decision']}")
    if "answer" in expect and answer != expect["answer"]:
        errors.append(f"answer is {answer}, expected {expect['answer']}")
    return errors


@pytest.mark.parametrize("name", SCENARIOS)
def test_thread__names_the_reported_cause(name):
    errors = errors_of(SCENARIOS[name])
    assert not errors, "\n".join(errors)


def test_threads__are_all_accounted_for():
    undecided = cases.load("not_determined.jsonl")
    assert len(SCENARIOS) + len(undecided) == 85
    assert all(row["why"] for row in undecided)
