"""The module in a real browser gives the answers of the program."""
import concurrent.futures
import json

import test_module
from conftest import NAME


def test_every_recorded_machine_has_the_plan_of_the_program(page, tmp_path):
    machines = [{"name": path.name, "record": path.read_text(), "assume": True}
                for path in test_module.RECORDS]
    answers = page.ask([("ask", {"request": {"command": "plan", "machines": [machine]}})
                        for machine in machines])
    for path, answer in zip(test_module.RECORDS, answers, strict=True):
        assert answer == json.loads(test_module.native(
            "plan", "--json", "--machine", path.name, tmp_path=tmp_path, cwd=path.parent)), path


def test_every_reported_failure_has_the_diagnosis_of_the_program(page, tmp_path):
    cases = list(test_module.reported_failures())
    assert len(cases) > 250

    def native(number):
        symptom, given = cases[number]
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / NAME).write_text(symptom, encoding="utf-8")
        words = [part for word in given for part in ("--given", word)]
        return json.loads(test_module.native("doctor", "--json", NAME, *words, cwd=folder,
                                             tmp_path=tmp_path))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        expected = list(pool.map(native, range(len(cases))))
    answers = page.ask([job for symptom, given in cases for job in (
        ("paste", {"name": NAME, "text": symptom}),
        ("ask", {"request": {"command": "doctor",
                             "machines": [{"name": NAME, "given": given}]}}))])[1::2]
    for (symptom, _), answer, right in zip(cases, answers, expected, strict=True):
        assert answer == right, symptom
