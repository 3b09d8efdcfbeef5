"""The machines of tests/cases/machines.jsonl, for the tests of several folders."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "cases"
#: The files of the records, by name. Those that users get as examples are there only.
RECORDS = {path.stem: path for folder in (CASES / "machines", ROOT / "examples" / "machines")
           for path in sorted(folder.glob("*.json"))}
#: A machine that was never recorded is this one, but for the facts that its row gives.
BASE = "rtx4090-torch2.8"
MACHINES = {row["name"]: row for row in
            map(json.loads, (CASES / "machines.jsonl").read_text().splitlines())}


def record_of(name):
    """The file that --machine names."""
    return RECORDS.get(name, RECORDS[BASE])


def given_of(name):
    """The options with the facts that differ from its record."""
    return [f"--given={fact}" for fact in MACHINES[name].get("given", [])]


def words_of(name):
    """The options that describe the machine to a command."""
    return ["--machine", str(record_of(name)), *given_of(name)]
