"""`anyflash doctor LOG...`: what went wrong, from logs as installers and programs print."""
import json
import pathlib
import re
import subprocess

import pytest
from conftest import PROGRAM

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYMBOL = ("ImportError: /srv/v/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-"
          "x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n")
GLIBC = ("ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found "
         "(required by /v/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)\n")
NEEDS_AMPERE = "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"
NO_TORCH = """Collecting flash-attn
  Getting requirements to build wheel did not run successfully.
      File "/tmp/e/setuptools/build_meta.py", line 332, in get_requires_for_build_wheel
      ModuleNotFoundError: No module named 'torch'
"""


# Commands that no shell of Windows knows.
UNIX = {"which", "df", "free", "ldd", "uname", "export", "source", "sudo", "chmod", "ls"}


def test_advice_names_a_command_of_unix_only_for_builds_or_with_its_system():
    rows = (ROOT / "data/causes.jsonl").read_text(encoding="utf-8").splitlines()
    for cause in map(json.loads, rows):
        for sentence in re.split(r"(?<=[.;:]) ", f"{cause['why']} {cause['fix']}"):
            words = {code.split()[0] for code in re.findall("`([^`]+)`", sentence)} & UNIX
            assert not words or cause["phases"] == ["build"] or "Linux" in sentence, cause


@pytest.fixture
def diagnose(anyflash, tmp_path):
    """diagnose(text, *words): the JSON answer, its causes by id, and the exit code."""
    def run(text, *words):
        log = tmp_path / "build.log"
        log.write_bytes(text if isinstance(text, bytes) else text.encode())
        answer = anyflash("doctor", str(log), "--json", *words)
        assert answer.code in (0, 1) and answer.err == "", answer
        found = json.loads(answer.out)
        return found, [cause["id"] for cause in found["causes"]], answer.code
    return run


def test_the_answer_comes_first_then_the_next_step(anyflash, tmp_path):
    (tmp_path / "a.log").write_text("some line\n" + GLIBC)
    answer = anyflash("doctor", "a.log", "--given", "glibc=2.31")
    lines = answer.out.splitlines()
    assert answer.code == 0 and "probably" not in lines[0] and "Linux" in lines[0], answer
    assert lines[2] == "Next step" and lines[3].startswith("  "), answer
    assert "line 2" in answer.out and "platform.libc_version is 2.31" in answer.out
    assert "glibc-too-old (proved)" in lines[-1] + lines[-2]
    assert max(map(len, lines)) <= 80, answer


def test_facts_prove_a_cause(diagnose):
    found, causes, code = diagnose(GLIBC, "--given", "glibc=2.31")
    assert code == 0 and causes[0] == "glibc-too-old"
    assert found["causes"][0]["confidence"] == "proved"
    assert {"fact": "platform.libc_version", "value": "2.31",
            "source": "--given glibc=2.31"} in found["causes"][0]["evidence"]


def test_a_symbol_tells_for_which_torch_the_extension_was_built(diagnose):
    found, causes, _ = diagnose(SYMBOL, "--given", "torch=2.4.0+cu121")
    assert causes[0] == "torch-minor-mismatch"
    assert found["causes"][0]["detail"] == (
        "this extension was built for torch 2.1 to 2.2 (it needs c10::cuda::SetDevice); "
        "you run 2.4.0+cu121")


def test_the_torch_of_the_log_counts(diagnose):
    said = "torch.__version__  = 2.4.0+cu121\n"
    assert diagnose(said + SYMBOL)[0]["causes"][0]["confidence"] == "proved"


def test_what_the_user_states_counts_more_than_the_log(diagnose):
    found, causes, _ = diagnose("torch.__version__  = 2.4.0+cu121\n" + SYMBOL, "--given",
                                "torch=2.2.2+cu121")
    proved = [cause["id"] for cause in found["causes"] if cause["confidence"] == "proved"]
    assert "torch-minor-mismatch" not in proved, causes


def test_the_first_failure_counts_not_the_last_message(diagnose):
    later = "line\n" * 300 + SYMBOL
    assert diagnose(NO_TORCH + later)[1][0] == "no-torch-in-build-env"


def test_a_pasted_report_gives_facts(diagnose):
    report = "PyTorch version: 2.4.0+cu121\nPython version: 3.10.12 (main)\n\n"
    found, _, _ = diagnose(report + SYMBOL)
    assert found["causes"][0]["confidence"] == "proved", found


@pytest.mark.parametrize("before", [
    "2026-01-01T00:00:00.0000000Z ", "#12 34.56 ", "\x1b[31m", "> ", "web-1  | ", "  │ ",
    "##[error]", "[rank0]: ", "[0;31m", "2026-01-01T00:00:00.0000000Z \x1b[0m##[error]",
    "[12:34:56] ", "12.3 "])
def test_prefixes_do_not_matter(diagnose, before):
    failure = "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"
    found, causes, _ = diagnose("noise\n" + before + failure)
    assert causes[0] == "oom-build", found
    assert found["causes"][0]["evidence"][0]["text"].startswith("nvcc error : 'cicc'")


def test_a_line_that_a_terminal_wrapped_is_read_as_one(diagnose):
    wrapped = ("│ ImportError: /srv/u/.venv/lib/python3.10/site-packages/flash_attn_2_cuda.so: "
               "undefined  │\n│ symbol: _ZN3c104cuda9SetDeviceEi                      │\n")
    found, causes, _ = diagnose(wrapped, "--given", "torch=2.4.0")
    assert causes and causes[0] == "torch-minor-mismatch", found
    assert found["causes"][0]["evidence"][0]["line"] == 1


def test_powershell_writes_utf_16(diagnose):
    assert diagnose(b"\xff\xfe" + SYMBOL.encode("utf-16-le"))[1]


def test_a_progress_bar_hides_nothing(diagnose):
    bar = "".join(f"\r {i}%|####      | {i}/100" for i in range(100))
    found, causes, _ = diagnose(bar + "\r" + GLIBC)
    assert causes and found["lines"] == 1


@pytest.mark.parametrize("text", [
    b"", b"\n", b"all good\n", bytes(range(256)) * 2000, b"\x1b]" * 5000,
    b"\xff\xfe\xfd" * 9000,
    b"\xe2\x94" * 5000, b"\r" * 100000, b"\x1b[" + b"1;" * 50000, b"{wheel}.whl" * 20000,
    b"flash_attn-" * 30000 + b".whl", b"undefined symbol: " * 20000, b"[" * 100000],
    ids=lambda text: repr(text[:12]))
def test_noise_is_no_failure_of_ours(diagnose, text):
    found, _, code = diagnose(text)
    assert len(found["causes"]) <= 16 and code in (0, 1)


def test_hostile_text_is_scrubbed(diagnose, anyflash, tmp_path):
    text = GLIBC.rstrip("\n") + "\x07\u202e\x9b31m\n"
    found, _, _ = diagnose(text)
    assert all(ord(letter) >= 32 and letter != "\u202e" and not 0x80 <= ord(letter) < 0xA0
               for letter in found["causes"][0]["evidence"][0]["text"])
    (tmp_path / "\x1b[31mred.log").write_text(SYMBOL)
    assert "\x1b" not in anyflash("doctor", "\x1b[31mred.log").out


def test_a_very_long_line_is_searched_to_its_end(diagnose):
    found, causes, _ = diagnose("x " * 3_000_000 + GLIBC)
    assert causes and len(json.dumps(found)) < 20000


def test_several_logs_are_one_story(anyflash, tmp_path):
    (tmp_path / "one.log").write_text("first\n" + NO_TORCH)
    (tmp_path / "two.log").write_text("second\n" + SYMBOL)
    answer = json.loads(anyflash("doctor", "one.log", "two.log", "--json").out)
    assert answer["files"] == ["one.log", "two.log"]
    assert answer["causes"][0]["evidence"][0] == {
        "file": "one.log", "line": 5, "text": "ModuleNotFoundError: No module named 'torch'"}


def test_standard_input(anyflash):
    done = subprocess.run([PROGRAM, "doctor", "-", "--json"], input=SYMBOL, text=True,
                          capture_output=True, check=False)
    assert json.loads(done.stdout)["files"] == ["standard input"]


def test_a_pipe_is_read(tmp_path):
    (tmp_path / "a.log").write_text(SYMBOL)
    script = f"exec {PROGRAM} doctor --json <(cat {tmp_path}/a.log)"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert json.loads(done.stdout)["causes"], done


def test_facts_of_this_machine_count_only_if_the_log_names_its_environment(anyflash, tmp_path):
    environment = tmp_path / "project" / ".venv"
    subprocess.run(["python3", "-m", "venv", "--without-pip", environment], check=True)
    env = {"VIRTUAL_ENV": str(environment)}
    (tmp_path / "here.log").write_text(f"Using {environment}/bin/python\n" + SYMBOL)
    (tmp_path / "there.log").write_text(SYMBOL)
    here = json.loads(anyflash("doctor", "here.log", "--json", env=env).out)
    there = json.loads(anyflash("doctor", "there.log", "--json", env=env).out)
    assert "this machine" in here["facts"] and there["facts"] == "the log"
    asked = json.loads(anyflash("doctor", "there.log", "--here", "--json", env=env).out)
    assert "this machine" in asked["facts"]


def test_an_unreadable_log_is_named(anyflash):
    answer = anyflash("doctor", "missing.log")
    assert answer.code == 3 and "'missing.log'" in answer.err and answer.out == ""
    assert anyflash("doctor", "/").code == 3


def test_a_log_without_a_known_failure_is_a_no(anyflash, tmp_path):
    (tmp_path / "a.log").write_text("all is well\n")
    answer = anyflash("doctor", "a.log")
    assert answer.code == 1 and answer.out.startswith("no known failure"), answer


def test_explain_prints_the_page_of_a_cause(anyflash):
    answer = anyflash("doctor", "--explain", "oom-build")
    assert answer.code == 0 and answer.out.startswith("oom-build: ") and "Why" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    one = json.loads(anyflash("doctor", "--explain", "oom-build", "--json").out)
    assert [cause["id"] for cause in one["causes"]] == ["oom-build"]


def test_explain_all_lists_every_cause(anyflash):
    text = anyflash("doctor", "--explain", "all").out
    assert max(map(len, text.splitlines())) <= 80
    listed = [line.split()[0] for line in text.splitlines() if line[0] != " "]
    rows = json.loads(anyflash("doctor", "--explain", "all", "--json").out)["causes"]
    assert listed == [row["id"] for row in rows]


def test_explain_refuses_an_unknown_cause(anyflash):
    answer = anyflash("doctor", "--explain", "nonsense")
    assert answer.code == 2 and "no cause 'nonsense'" in answer.err
    assert "--explain all" in answer.err


@pytest.mark.parametrize("version", ["2.8.3", "2.8.2", "2.7.4.post1", "2.5.8"])
@pytest.mark.parametrize("torch", ["2.4", "2.7", "2.9", "2.10", "2.11", "2.15"])
def test_only_what_the_catalog_lacks_is_called_unpublished(anyflash, diagnose, torch, version):
    name = f"flash_attn-{version.split('.post')[0]}"
    found = json.loads(anyflash("find", f"torch={torch}", "--official", name, "--json").out)
    answer, ids, _ = diagnose(f"torch.__version__  = {torch}.0+cu128\n"
                              f"Collecting flash-attn=={version}\n"
                              "Precompiled wheel not found. Building from source...\n"
                              "error: subprocess-exited-with-error\n")
    proved = [cause["id"] for cause in answer["causes"] if cause["confidence"] == "proved"]
    lacks = found["count"] == 0 and torch != "2.15"  # which came out after the listings
    assert ("no-wheel-for-torch" in proved) == lacks, (found, answer)


@pytest.mark.parametrize("gpu, version, cause", [
    ("RTX 5090", "2.6.3", "gpu-newer-than-release"),
    ("RTX 4090", "2.6.3", "wrong-device-visible"),
    ("T4", "2.6.3", "sm-unsupported"),
])
def test_a_release_that_is_older_than_the_gpu(diagnose, gpu, version, cause):
    answer, ids, _ = diagnose(NEEDS_AMPERE, "--given", f"gpu={gpu}",
                              "--given", f"flash_attn={version}")
    assert (ids[0], answer["causes"][0]["confidence"]) == (cause, "proved")


def test_a_new_gpu_does_not_prove_that_it_is_not_used(diagnose):
    answer, ids, _ = diagnose(NEEDS_AMPERE, "--given", "gpu=RTX 5090")
    assert ids[0] == "gpu-newer-than-release"
    assert all(cause["confidence"] != "proved" for cause in answer["causes"])


@pytest.mark.parametrize("shift", range(4))
def test_a_long_line_is_cut_between_characters(anyflash, tmp_path, shift):
    line = NEEDS_AMPERE.strip() + "x" * shift + "é漢😀" * 60
    (tmp_path / "a.log").write_text(line + "\n", encoding="utf-8")
    done = subprocess.run([PROGRAM, "doctor", tmp_path / "a.log"], capture_output=True,
                          env={"LC_ALL": "C.UTF-8"}, check=False)
    assert "Ampere" in done.stdout.decode("utf-8")
