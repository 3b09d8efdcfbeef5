"""`tests/run doctor`: the doctor reads the logs that make_logs.py has really made here."""

import json
import os
import pathlib

import pytest

import expectation

FOLDER = os.environ.get("DOCTOR_LOGS")
ROWS = json.loads((pathlib.Path(FOLDER) / "scenarios.json").read_text()) if FOLDER else {}
needs_logs = pytest.mark.skipif(
    not FOLDER, reason="needs logs of make_logs.py: DOCTOR_LOGS=FOLDER"
)


@needs_logs
def test_enough_failures_and_healthy_logs_were_made():
    failures = sum(name.startswith("failures/") for name in ROWS)
    assert failures >= 30 and len(ROWS) - failures >= 200


@needs_logs
@pytest.mark.parametrize("name", sorted(ROWS))
def test_doctor_says_what_happened(name):
    problems = expectation.problems(pathlib.Path(FOLDER) / f"{name}.log", ROWS[name])
    assert not problems, f"{ROWS[name]['how']}: {problems}"
