"""`--machine` with text that people paste; tests/machine/pasted holds the texts."""
import json
import subprocess
from pathlib import Path

import pytest

TEXTS = Path(__file__).resolve().parents[1] / "machine" / "pasted"

# The answer that follows from each report; None: the report does not say enough.
DECISIONS = {
    "collect_env_8x_a100": "wheel",
    "collect_env_conda_forge_old_glibc": "engine",  # V100: no kernels for sm 7.0
    "collect_env_cpu_only": "engine",
    "collect_env_macos": "engine",
    "collect_env_no_torch": "torch-kernels",  # importing torch failed; a T4 has no other way
    "collect_env_old": None,  # no system
    "collect_env_rocm": "torch-kernels",
    "collect_env_two_torches": "torch-change",  # CUDA 12.4 has no code for an RTX 5090
    "collect_env_vllm_sections": "wheel",
    "collect_env_windows": "wheel",
    "collect_env_wsl": "wheel",
    "diffusers_env_colab": "wheel",
    "pip_list_everything": "wheel",
    "transformers_env": "wheel",
}


def test_every_report_is_listed():
    assert {path.stem for path in TEXTS.glob("collect_env_*.txt")} <= set(DECISIONS)


@pytest.mark.parametrize("name", DECISIONS)
def test_plan_decides_from_a_pasted_report(anyflash, name):
    answer = anyflash("plan", "--json", "--machine", str(TEXTS / f"{name}.txt"))
    plan = json.loads(answer.out)
    assert plan["decision"] == DECISIONS[name], answer
    assert answer.code == (0 if DECISIONS[name] else 1)


@pytest.mark.parametrize("name", [name for name in DECISIONS if DECISIONS[name]])
def test_facts_of_the_decision_are_those_of_the_text(anyflash, name):
    answer = anyflash("plan", "--json", "--machine", str(TEXTS / f"{name}.txt"))
    used = json.loads(answer.out)["facts"]
    for fact, expected in json.loads((TEXTS / f"{name}.json").read_text()).items():
        if fact in used and fact != "gpus" and not isinstance(expected, dict):
            assert used[fact] == expected, fact


def test_doctor_find_and_config_read_it_too(anyflash):
    text = str(TEXTS / "pip_list_everything.txt")
    doctor = json.loads(anyflash("doctor", "--json", "--machine", text).out)
    assert "2.7.3" in json.dumps(doctor)
    assert anyflash("find", "--machine", text).code == 0
    assert anyflash("config", "pip", "--machine", text).code == 0


def test_contradictions_are_notes_on_stderr(anyflash):
    answer = anyflash("plan", "--machine", str(TEXTS / "collect_env_two_torches.txt"))
    assert answer.err == (
        "note: torch is 2.6.0+cu124 on line 2 of collect_env_two_torches.txt "
        "but 2.5.1 on line 11; the first one is used\n")
    quiet = anyflash("plan", "-q", "--machine", str(TEXTS / "collect_env_two_torches.txt"))
    assert quiet.err == ""


def test_standard_input_is_read(anyflash):
    text = (TEXTS / "nvidia_smi_q.txt").read_bytes()
    found = json.loads(anyflash("machine", "--machine", "-", input=text).out)
    assert found["gpus"][1]["sm"] == {
        "value": "8.9", "source": "line 21 of stdin: that product"}


def test_a_pipe_is_read(anyflash):
    script = f"exec {anyflash.program} machine --machine <(cat {TEXTS / 'nvidia_smi_q.txt'})"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert json.loads(done.stdout)["gpus"][1]["sm"]["value"] == "8.9"


def test_a_device_without_an_end_is_refused(anyflash):
    answer = anyflash("plan", "--machine", "/dev/zero")
    assert answer.code == 3 and "'/dev/zero' is larger than" in answer.err


def test_a_record_of_it_is_a_record(anyflash, tmp_path):
    first = anyflash("machine", "--machine", str(TEXTS / "collect_env_wsl.txt"))
    (tmp_path / "node.json").write_text(first.out)
    again = anyflash("machine", "--machine", "node.json")
    assert json.loads(again.out) == json.loads(first.out)


def test_text_that_describes_no_machine_is_refused(anyflash, tmp_path):
    (tmp_path / "notes.txt").write_text("buy milk\n")
    answer = anyflash("plan", "--machine", "notes.txt")
    assert answer.code == 3
    assert answer.err == ("error: 'notes.txt' is neither a machine record nor output that "
                          "describes a machine, such as collect_env's\n")
