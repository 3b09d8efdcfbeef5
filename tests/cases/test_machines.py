"""Recorded machines: the decision for each, and what is printed."""
import difflib
import itertools
import re

import pytest

import cases
from recorded import MACHINES as EXPECTED
from recorded import RECORDS

NAMES = sorted(EXPECTED)


@pytest.fixture(scope="module")
def answers():
    """All output of all machines: {(kind, json?, name): (code, out, err)}."""
    keys = [(kind, json, name)
            for name in NAMES for kind in cases.TEXTS for json in (True, False)]
    commands = [[name, kind, *(["--json"] if json else [])]
                for kind, json, name in keys]
    return dict(zip(keys, cases.run_many(commands)))


def parsed(answers, kind, name):
    code, out, err = answers[kind, True, name]
    assert code in (0, 1), err
    return code, cases.json.loads(out)


def test_machines__all_have_an_expectation():
    assert RECORDS.keys() == {name for name in NAMES if "given" not in EXPECTED[name]}


@pytest.mark.parametrize("name", NAMES)
def test_plan__decides_as_the_facts_demand(answers, name):
    code, plan = parsed(answers, "plan", name)
    errors = cases.plan_errors(EXPECTED[name], plan)
    assert not errors, "\n".join(errors)
    assert code == (0 if plan["decision"] else 1)


@pytest.mark.parametrize("name", NAMES)
def test_doctor__finds_what_is_wrong(answers, name):
    expect = EXPECTED[name]
    errors = cases.doctor_errors(expect, parsed(answers, "doctor", name)[1])
    assert not errors, "\n".join(errors)


GOLDENS = sorted(cases.MACHINES.glob("*.txt"))


@pytest.mark.parametrize("golden", GOLDENS, ids=[p.stem for p in GOLDENS])
def test_text__is_the_accepted_one(answers, golden):
    name, kind = golden.stem.rsplit(".", 1)
    _, out, err = answers[kind, False, name]
    if out != golden.read_text(encoding="utf-8"):
        difference = difflib.unified_diff(golden.read_text(encoding="utf-8").splitlines(),
                                          out.splitlines(), "accepted", "printed", lineterm="")
        pytest.fail("\n".join([*difference, err, "if that is right: python3 "
                               f"tests/cases/cases.py --write-goldens {name}"]), pytrace=False)


@pytest.mark.parametrize("name", NAMES)
def test_plan__answers_first_and_is_one_screen_where_a_wheel_fits(answers, name):
    _, plan = parsed(answers, "plan", name)
    lines = cases.run_in_terminal(name, "plan")
    if plan["decision"] is None:
        assert lines[0].startswith(("No decision yet", "No option")), lines[0]
    elif plan["wheel"]:
        assert plan["wheel"]["version"] in lines[0] and lines[1].startswith("Next: ")
    if plan["decision"] == "wheel":
        assert len(lines) <= 24, "\n".join(lines)


def can_be_wrapped(line):
    """Whether it has more than one word behind its label. Commands are copied: one in
    backquotes and an argument in quotes are one word, and one for Windows is never wrapped."""
    text = re.sub(r"^(- |Next: |Note: |\d+\. )", "", line.strip().rsplit("  ", 1)[-1])
    words = re.findall(r"`[^`]*`\S*|'[^']*'(?!\S)|\S+", text.removesuffix(" \\"))
    return len(words) > 1 and ".exe " not in text and not text.startswith("C:\\")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("words", [
    ["doctor"], ["doctor", "-v"], ["plan"], ["plan", "-v"],
    ["plan", "--all", "--limit", "40"],
    ["find", "torch=2.9", "python=3.12", "--limit", "40", "-v"]], ids=" ".join)
def test_screen__is_as_wide_as_the_terminal_and_cuts_nothing(words, columns):
    for name in NAMES if "-v" not in words else NAMES[::5]:
        lines = cases.run_in_terminal(name, *words, columns=columns)
        assert lines, name
        wide = [line for line in lines if len(line) > columns and can_be_wrapped(line)]
        cut = [line for line in lines if " ..." in line]
        assert not wide + cut, (name, wide, cut)


@pytest.mark.parametrize("name", NAMES)
def test_plan__has_one_row_for_each_other_way(answers, name):
    _, plan = parsed(answers, "plan", name)
    lines = cases.run_in_terminal(name, "plan")
    others = [rung for rung in plan["rungs"] if rung["name"] != plan["decision"]]
    start = next(i for i, line in enumerate(lines) if "(-v for details)" in line) + 1
    table = itertools.takewhile(str.strip, lines[start:])
    rows = [line.split()[:2] for line in table if not line.startswith("   ")]
    assert rows == [[rung["name"], rung["verdict"]] for rung in others]


def test_plan__verbose_gives_every_reason_and_cost():
    _, out, _ = cases.run_about("rtx4090-torch2.15", "plan", "-v")
    assert "cost: " in out and "All options, best first" in out


def explained():
    for name in NAMES:
        explain = EXPECTED[name].get("explain", {})
        for pattern, reasons in explain.items():
            yield pytest.param(name, re.sub(r"\\(.)", r"\1", pattern), reasons, id=name)


@pytest.mark.parametrize("name, filename, reasons", explained())
def test_wheel__is_refused_with_the_reason(name, filename, reasons):
    _, out, err = cases.run_about(name, "plan", "--json", "--wheel", filename)
    said = cases.json.loads(out)
    assert said["verdict"] == "no", err
    assert set(reasons) <= cases.reason_ids(said["machines"][0]["reasons"])


@pytest.mark.parametrize("name", NAMES)
def test_record__survives_being_read_and_written(name):
    code, once, err = cases.run_about(name, "machine")
    assert code == 0, err
    code, twice, _ = cases.run("machine", "--machine", "-", given=once)
    assert code == 0 and twice == once
