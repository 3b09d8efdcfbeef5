"""The doctor reads logs that were really made (make_logs.py) and recorded (record.py)."""
import json
import pathlib
import re
import sys

import pytest

import expectation

HERE = pathlib.Path(__file__).resolve().parent
LOGS = HERE / "logs"
ROWS = json.loads((LOGS / "expected.json").read_text())
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import check_style  # noqa: E402


@pytest.mark.parametrize("name", sorted(ROWS))
def test_doctor_says_what_happened(name):
    problems = expectation.problems(LOGS / f"{name}.log", ROWS[name])
    assert not problems, f"{ROWS[name]['how']}: {problems}"


def test_every_log_has_an_expectation():
    logs = {str(path.relative_to(LOGS).with_suffix("")) for path in LOGS.glob("*/*.log")}
    assert logs == set(ROWS)


def test_logs_are_small_and_name_no_private_folder_or_host_of_a_package_index():
    hosts = [pattern for pattern, what in check_style.FORBIDDEN if "host" in what]
    assert hosts
    private = [*hosts, re.compile(r"(?<![\w.])/(?:work|root)\b")]
    total = 0
    for path in LOGS.glob("*/*.log"):
        data = path.read_bytes()
        total += len(data)
        assert len(data) <= 20 << 10, path.name
        assert not any(pattern.search(data.decode()) for pattern in private), path.name
    assert total <= 1500 << 10
