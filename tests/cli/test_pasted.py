"""`--machine` with text that people paste; tests/machine/pasted holds the texts."""
import json
import random
import re
import subprocess
from pathlib import Path

import pytest

TEXTS = Path(__file__).resolve().parents[1] / "machine" / "pasted"

# What people write and paste without a report: facts that must come out, and the text.
SAID = [json.loads(line) for line in (TEXTS.parent / "said.jsonl").read_text().splitlines()]

# The answer that follows from each report; None: the report does not say enough.
DECISIONS = {
    "collect_env_8x_a100": "wheel",
    "collect_env_conda_forge_old_glibc": "engine",  # V100: no kernels for sm 7.0
    "collect_env_cpu_only": "engine",
    "collect_env_macos": "engine",
    "collect_env_no_torch": "torch-kernels",  # importing torch failed; a T4 has no other way
    "collect_env_old": "engine",  # linux, x86_64 and Python 3.12 are assumed
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


def facts_of(anyflash, path, text):
    """What `machine` reads from the text, without where it was read."""
    path.write_bytes(text.encode())
    record = json.loads(anyflash("machine", "--json", "--machine", str(path)).out)
    return re.sub(r"line \d+ of", "line of", json.dumps(record))


def each_line(before="", after=""):
    return lambda text: "\n".join(f"{before}{line}{after}" for line in text.split("\n"))


# What mail programs, terminals, Markdown and logs of CI do to a text, which states the same.
WRAPPINGS = {
    "crlf": each_line(after="\r"),
    "byte order mark": lambda text: "\ufeff" + text,
    "quoted": each_line("> "),
    "indented": each_line("    ", "  "),
    "fenced": lambda text: f"<details>\n\n```text\n{text}\n```\n</details>\n",
    "in colour": each_line("\x1b[0m", "\x1b[0m"),
    "of GitHub Actions": each_line("2026-11-30T07:46:08.1234567Z "),
    "with a greeting": lambda text: f"Hi all, any idea?\n\n{text}\n\nThanks in advance!\n",
}


def test_a_text_states_the_same_however_it_is_wrapped(anyflash, tmp_path):
    texts = {path.stem: path.read_text() for path in TEXTS.glob("*.txt")}
    texts.update((row["name"], row["text"]) for row in SAID)
    path = tmp_path / "text.txt"
    for name, text in texts.items():
        facts = facts_of(anyflash, path, text)
        for wrapping in random.sample(sorted(WRAPPINGS), 3):
            if text[0] in "[{" and wrapping in ("quoted", "in colour", "of GitHub Actions"):
                continue  # JSON would not be JSON
            wrapped = facts_of(anyflash, path, WRAPPINGS[wrapping](text))
            assert wrapped == facts, (name, wrapping)


@pytest.mark.parametrize("row", SAID, ids=lambda row: row["name"])
def test_plan_decides_from_what_people_write(anyflash, tmp_path, row):
    text = tmp_path / "said.txt"
    text.write_text(row["text"])
    answer = anyflash("plan", "--json", "--machine", str(text))
    decided = json.loads(answer.out)["decision"] is not None
    assert decided or "torch.version" not in row["facts"], answer


def test_pasted_text_gets_the_assumptions_of_given(anyflash, tmp_path):
    words = ["gpu=RTX 3060", "torch=2.6", "python=3.11", "os=windows"]
    given = anyflash("plan", *[word for key in words for word in ("--given", key)])
    text = tmp_path / "said.txt"
    text.write_text("RTX 3060, torch 2.6, Python 3.11 on Windows\n")
    answer = anyflash("plan", "--machine", str(text))
    assert "said.txt, assuming arch=x86_64" in answer.out
    assert answer.out.splitlines()[:2] == given.out.splitlines()[:2]


def test_a_cuda_that_torch_is_built_for_is_assumed_of_torch(anyflash, tmp_path):
    text = tmp_path / "said.txt"
    text.write_text("CUDA 12.4, torch 2.6, RTX 3060, Python 3.11 on Windows\n")
    answer = anyflash("plan", "--machine", str(text))
    assert "assuming arch=x86_64, torch_cuda=cu124" in answer.out
    text.write_text("CUDA 12.5, torch 2.6, RTX 3060, Python 3.11 on Windows\n")
    answer = anyflash("plan", "--machine", str(text))
    assert "torch_cuda" not in answer.out.split("Steps")[0]


@pytest.mark.parametrize("line, found", [
    ('  File "/Users/me/venv/lib/python3.12/site-packages/torch/x.py", line 2', "macos"),
    ("/usr/local/bin/python: No such file: '/Users/me/x'", "macos"),
    ("/Users/me/venv/lib/python3.12/site-packages/torch/x.py:2: UserWarning", "macos"),
    ("running in `/Users/me/x`", "macos"), ("see https://example.org/Users/me", None),
    ("numpy @ file:///Users/runner/miniforge3/conda-bld/numpy", "macos"),
    ('  File "C:/Users/me/venv/Lib/site-packages/torch/x.py", line 2', None),
    ("cd /c/Users/me/ComfyUI", None),
    ("-v C:/Users/me:/workspace", None),
])
def test_a_home_folder_of_macos_names_the_system(anyflash, line, found):
    text = f"torch 2.8.0+cu128\n{line}\n".encode()
    facts = json.loads(anyflash("machine", "--machine", "-", input=text).out)
    assert facts["platform"]["os"].get("value") == found


@pytest.mark.parametrize("line, found", [
    ("creating build\\lib.win-amd64-cpython-310", "windows"),
    ("creating build/lib.linux-x86_64-cpython-310", "linux"),
    ("Guessing wheel URL:  https://x.invalid/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp310-"
     "cp310-win_amd64.whl", "windows"),
    ("Guessing wheel URL:  https://x.invalid/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp310-"
     "cp310-linux_x86_64.whl", "linux"),
    ("I found flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp310-cp310-win_amd64.whl only", None),
])
def test_a_build_names_its_system_and_a_wanted_wheel_does_not(anyflash, tmp_path, line, found):
    (tmp_path / "log.txt").write_text(f"torch 2.8\n{line}\n")
    facts = json.loads(anyflash("machine", "--machine", tmp_path / "log.txt", "--json").out)
    assert facts["platform"]["os"].get("value") == found


@pytest.mark.parametrize("line, version", [
    ("2.10.0+cu130", "2.10.0+cu130"),
    ("  '2.8.0+cu128' ", "2.8.0+cu128"),
    ("0.25.0+cu130", None),               # torchvision
    ("2.8.3+cu12torch2.8", None),         # flash-attn
    ("torchaudio 2.10.0+cu130", None),
    ("2.10.0+cu130 is what I have not", None),
])
def test_a_version_alone_on_its_line_is_that_of_torch(anyflash, line, version):
    text = f"RTX 4090\n{line}\n".encode()
    facts = json.loads(anyflash("machine", "--machine", "-", input=text).out)
    assert facts["torch"]["version"].get("value") == version


def test_doctor_claims_nothing_of_packages_that_the_text_does_not_list(anyflash):
    start = next(row["text"] for row in SAID if row["name"] == "comfyui_start_windows")
    answer = anyflash("doctor", "--machine", "-", input=start.encode())
    assert answer.out.startswith("it is unknown whether flash-attn is installed\n")
    listed = anyflash("doctor", "--machine", str(TEXTS / "pip_list_everything.txt"))
    assert "it is unknown" not in listed.out


def test_an_option_changes_what_is_assumed(anyflash, tmp_path):
    text = tmp_path / "said.txt"
    text.write_text("RTX 3060, torch 2.6, Python 3.11 and CUDA 12.4 on Windows\n")
    answer = anyflash("plan", "--json", "--machine", str(text), "--given", "torch_cuda=12.6")
    assert json.loads(answer.out)["facts"]["torch.cuda"] == "12.6"


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


@pytest.mark.parametrize("start", ["[Bug]: Usage of flash-attn\n", "{code}\n", "{noformat}\n",
                                   "[rank0]: x\n"])
def test_text_that_begins_with_a_bracket_is_no_json(anyflash, tmp_path, start):
    (tmp_path / "notes.txt").write_text(start + "buy milk\n")
    answer = anyflash("plan", "--machine", "notes.txt")
    assert answer.code == 3 and "is neither a machine record nor" in answer.err
    (tmp_path / "notes.txt").write_text(start + "torch.__version__ 2.8.0+cu128\n"
                                        "Python version: 3.12.4 (64-bit runtime)\n")
    answer = anyflash("machine", "--machine", "notes.txt")
    assert json.loads(answer.out)["python"]["version"]["value"] == "3.12.4"


def test_no_wheel_fits_a_python_that_nobody_stated(anyflash):
    """A wheel is for one Python; which one is assumed stands before the word "fits"."""
    words = ("plan", "--given", "torch=2.8.0+cu128", "--given", "sm=9.0", "--given", "os=linux",
             "--given", "glibc=2.35")
    assert anyflash(*words).out.startswith("If Python is 3.12, a wheel fits: ")
    assert "--given python=" in anyflash(*words).out
    assert anyflash(*words, "--given", "python=3.11").out.startswith("A wheel fits: ")