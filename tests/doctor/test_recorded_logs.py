"""The doctor reads logs that were really made (make_logs.py) and recorded (record.py)."""
import json
import pathlib
import re
import sys

import pytest

import expectation
import logs

ROWS = logs.read()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_style  # noqa: E402


@pytest.mark.parametrize("name", sorted(ROWS))
def test_doctor_says_what_happened(name, tmp_path):
    log = tmp_path / f"{pathlib.Path(name).name}.log"
    log.write_bytes(ROWS[name]["text"].encode())
    problems = expectation.problems(log, ROWS[name])
    assert not problems, f"{ROWS[name]['how']}: {problems}"


def test_every_log_has_an_expectation():
    assert all(row.keys() == logs.EXPECTED | {"text"} for row in ROWS.values())


def test_rows_are_as_the_script_writes_them(tmp_path, monkeypatch):
    recorded = logs.FILE.read_bytes()
    monkeypatch.setattr(logs, "FILE", tmp_path / "logs.jsonl")
    logs.write(ROWS)
    assert logs.FILE.read_bytes() == recorded


def test_a_log_is_put_replaced_shown_and_removed(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(logs, "FILE", tmp_path / "logs.jsonl")
    logs.write(ROWS)
    log = tmp_path / "new.log"
    log.write_bytes(b"one\r\n\xff")
    expected = {"how": "by hand", "causes": [], "least": None, "given": []}
    logs.put("healthy/new", log, json.dumps(expected))
    assert logs.read() == {**ROWS, "healthy/new": {**expected, "text": "one\r\n\ufffd"}}
    log.write_bytes(b"two\n")
    logs.put("healthy/new", log)
    logs.show("healthy/new")
    assert capfdbinary.readouterr().out == b"two\n"
    logs.remove("healthy/new")
    assert logs.read() == ROWS


def test_a_log_without_an_expectation_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "FILE", tmp_path / "logs.jsonl")
    logs.write({})
    (tmp_path / "new.log").write_text("one\n")
    with pytest.raises(SystemExit, match="the row of 'healthy/new' must have causes"):
        logs.put("healthy/new", tmp_path / "new.log")


def test_logs_are_small_and_name_no_private_folder_or_host_of_a_package_index():
    hosts = [pattern for pattern, what in check_style.FORBIDDEN if "host" in what]
    assert hosts
    private = [*hosts, re.compile(r"(?<![\w.])/(?:work|root)\b")]
    total = 0
    for name, row in ROWS.items():
        size = len(row["text"].encode())
        total += size
        assert size <= 20 << 10, name
        assert not any(pattern.search(row["text"]) for pattern in private), name
    assert total <= 1500 << 10
