"""`anyflash doctor --report`: the file for a bug report."""
import json

import pytest

RECORD = {
    "schema": "anyflash-machine/1",
    "platform": {"os": "linux", "arch": "x86_64"},
    "python": {"version": "3.12.4", "prefix": "/" + "home/anna.smith/venv"},
    "variables": [{"name": "UV_INDEX", "value": "https://anna:s3cret@wheels.team.internal/x"}],
}


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(RECORD))
    return str(path)


def test_report_has_verdict_and_facts_without_private_words(anyflash, record, tmp_path):
    done = anyflash("doctor", "--machine", record, "--report")
    report = (tmp_path / "anyflash-report.md").read_text()
    assert report.startswith("# anyflash report\n") and "## Verdict" in report
    facts = json.loads(report.split("## Facts of the machine")[1].split("~~~~")[1])
    assert facts["python"]["version"]["value"] == "3.12.4"
    for private in ("anna", "s3cret", "team.internal"):
        assert private not in report
    assert "[user]" in report and "anyflash-report.md" in done.err and "[user]" in done.err


def test_report_goes_where_output_says_and_again(anyflash, record, tmp_path):
    for _ in range(2):
        done = anyflash("doctor", "--machine", record, "--report", "--output", "r.md", "--json")
        assert json.loads(done.out)["schema"] == "anyflash-doctor/1" and done.code in (0, 1)
    assert (tmp_path / "r.md").is_file() and not (tmp_path / "anyflash-report.md").exists()


def test_another_file_is_not_overwritten(anyflash, record, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = anyflash("doctor", "--machine", record, "--report", "--output", "notes.txt")
    assert done.code == 3 and "is not a report" in done.err and "--output" in done.err, done
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_report_of_a_log_has_its_first_fault_and_its_end(anyflash, tmp_path):
    lines = ["pip install flash-attn", "ModuleNotFoundError: No module named 'torch'",
             *(f"line {i}" for i in range(3000)), "HF_TOKEN=abc \x1b[31mthe end"]
    (tmp_path / "pip.log").write_text("\n".join(lines))
    done = anyflash("doctor", "pip.log", "--report", "--given", "os=linux")
    report = (tmp_path / "anyflash-report.md").read_text()
    assert "No module named 'torch'" in report and "the end" in report, done
    assert "HF_TOKEN=[secret]" in report and "\x1b" not in report
    assert "line 2999" in report and "line 99\n" not in report
