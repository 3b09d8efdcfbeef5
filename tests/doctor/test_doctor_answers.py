"""What must hold for the answer to any text, over all texts of all sets and pairs of them."""
import concurrent.futures
import json
import random
import re
import subprocess

import pytest

import measure

SETS = ("cases", "threads", "unseen", "unrelated")
TEXTS = [case["symptom"] for name in SETS
         for case in measure.load(measure.HERE / f"{name}.jsonl")]
PAIRS = 120
SEED = 20261129


def texts():
    """All texts, and pairs of them in one: somebody pastes two logs."""
    chance = random.Random(SEED)
    return TEXTS + ["\n".join(chance.sample(TEXTS, 2)) for _ in range(PAIRS)]


def run(text, *words):
    return subprocess.run([measure.PROGRAM, *words], input=text.encode(), capture_output=True,
                          env=measure.environment(), cwd=measure.HERE, timeout=60, check=False)


def answer(text):
    """The answer as it is read, as JSON, and what `plan` says of the same text."""
    shown, told = run(text, "doctor", "-"), run(text, "doctor", "--json", "-")
    plan = run(text, "plan", "--machine", "-", "--json")
    assert shown.returncode in (0, 1) and told.returncode in (0, 1), text[:200]
    return (text, shown.stdout.decode(), json.loads(told.stdout),
            json.loads(plan.stdout) if plan.stdout else None)


@pytest.fixture(scope="module")
def answers():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(answer, texts()))


def test_lines__fit_the_terminal(answers):
    """But for commands and addresses, which must not be broken."""
    for _, shown, _, _ in answers:
        for line in shown.splitlines():
            assert len(line) <= 80 or re.match(
                r" {4,}\S|.*`|.*://| *(line \d+ +)?\S+$", line), line


def test_another_package__has_no_remedy_of_flash_attn(answers):
    named = 0
    for _, _, told, _ in answers:
        for cause in told["causes"]:
            if cause["package"] is None:
                continue
            named += 1
            said = cause["title"] + cause["fix"] + (cause["detail"] or "")
            said = said.replace(cause["package"], "")
            assert not re.search(r"flash.?att|anyflash", said, re.I)
            assert cause["next"] is None and cause["avoid"] is None
    assert named > 20


def test_plan__is_that_of_the_same_text(answers):
    """The doctor and `plan --machine` read the same facts of a text and decide alike."""
    planned = 0
    for text, _, told, plan in answers:
        steps = told["plan"]["steps"] if told["plan"] else []
        if not steps:
            continue
        assert plan is not None, text[:200]
        planned += 1
        assert told["plan"]["headline"] == plan["headline"], text[:200]
        urls = [word for step in steps for word in step["argv"] or [] if "://" in word]
        assert all(url in json.dumps(plan) for url in urls)
    assert planned > 50


def test_windows__gets_no_command_that_does_not_run_there(answers):
    seen = 0
    for text, shown, _, _ in answers:
        if not re.search(r"[A-Z]:\\Users|DLL load failed|win_amd64|Windows 1[01]", text):
            continue
        machine = run(text, "machine", "--machine", "-")
        if machine.returncode != 0 or b'"os": {"value": "windows"' not in machine.stdout:
            continue
        seen += 1
        step = shown.partition("Next step\n")[2].partition("\n\n")[0]
        assert "anyflash" not in re.sub(r"https?://\S+", "", step), step
    assert seen > 15


def test_a_stated_fact__is_not_contradicted(answers):
    """No answer says that what the text states to be there is missing or too old."""
    for text, _, told, _ in answers:
        causes = {cause["id"] for cause in told["causes"] if cause["package"] is None}
        if re.search(r"^flash[-_]attn==2\.8\.3$", text, re.M):
            assert "flash-attn-too-old" not in causes
        if "torch.version.cuda = 12" in text:
            assert "cpu-only-torch" not in causes


def test_a_wheel__is_for_the_system_that_the_text_names(answers):
    seen = 0
    for text, shown, _, _ in answers[:len(TEXTS)]:
        if re.search(r"lib\.win-amd64|Guessing wheel URL.*win_amd64|C:\\Users", text):
            seen += 1
            assert not re.search(r"linux\w*\.whl", shown.partition("Evidence")[0]), text[:200]
    assert seen > 10


def test_no_fact__is_asked_for_where_none_could_bring_a_wheel():
    text = ("pip install flash-attn fails on my macbook\n"
            "ERROR: Failed building wheel for flash-attn\n")
    assert b"which wheel fits" not in run(text, "doctor", "-").stdout
    assert b"which wheel fits" in run(text.replace("macbook", "machine"), "doctor", "-").stdout


@pytest.mark.parametrize("said, asked", [
    ("", ("torch", "Python", "GPU")), ("RTX 4090", ("torch", "Python")),
    ("RTX 4090, Python 3.12", ("torch",)), ("Python 3.12", ("torch", "GPU")),
])
def test_no_fact__that_the_text_states_is_asked_for(said, asked):
    shown = run(f"{said}\nERROR: Failed building wheel for flash-attn\n", "doctor", "-")
    question = re.search(r"which wheel fits depends on (.*?):", " ".join(
        shown.stdout.decode().split()))[1]
    assert [fact for fact in ("torch", "Python", "GPU") if fact in question] == list(asked)


ERROR = "RuntimeError: shape '[-1, 0]' is invalid for input of size 1073"
STORY = ("it happened after flash attention failed to build, and the compiler was killed",
         "flash attention does not support my gpu", "the flash-attn version was wrong",
         "I cannot install flash-attn on my machine", "flash attention needs float16")


@pytest.mark.parametrize("story", STORY)
@pytest.mark.parametrize("title", ["Generation stops with an error", ERROR])
def test_a_printed_error__is_not_explained_by_the_story_around_it(title, story):
    """What people say of flash-attn names no cause of an error that a program printed."""
    told = json.loads(run(f"{title}\n\nHello,\n{story}\n\n{ERROR}\n", "doctor", "--json",
                          "-").stdout)
    assert told["causes"] == [] and told["error"]["text"] == ERROR
    shown = run(f"{title}\n\nHello,\n{story}\n\n{ERROR}\n", "doctor", "-").stdout.decode()
    assert "What failed" in shown and ERROR in shown
    assert "of the program that printed it" in " ".join(shown.split())
    assert "which wheel fits" not in shown


NOTICES = ("FlashAttention-2 is not installed, ignore this if you do not use it.",
           "Warning: import flash_attn rms_norm fail, please install FlashAttention layer_norm "
           "to get higher efficiency",
           "Flash-Attn is not available, falling back to SDPA")


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice__is_not_the_cause_of_another_error(notice):
    """The program said that it runs without flash-attn, and stopped for another reason."""
    text = f"{notice}\nLoading checkpoint shards: 100%\n{ERROR}\n"
    told = json.loads(run(text, "doctor", "--json", "-").stdout)
    assert told["causes"] == [] and told["error"]["text"] == ERROR
    alone = json.loads(run(notice + "\n", "doctor", "--json", "-").stdout)
    assert alone["causes"] or alone["harmless"]


def test_a_guess__says_that_it_is_one(answers):
    """Only a message that names the fault, the printed error or a fact is no guess."""
    guesses = 0
    for _, shown, told, _ in answers:
        for cause in told["causes"]:
            guesses += cause["doubt"] is not None
            assert cause["doubt"] is None or cause["confidence"] == "possible"
            lines = {row.get("line") for row in cause["evidence"]}
            assert cause["doubt"] is None or told["error"] is None or \
                told["error"]["line"] not in lines
        if told["causes"] and told["causes"][0]["doubt"] and not told["causes"][0]["detail"]:
            assert " ".join(told["causes"][0]["doubt"].split()) in " ".join(shown.split())
    assert guesses > 50


@pytest.mark.parametrize("line", [
    "ImportError: DLL load failed while importing flashattn_hopper_cuda: not found",
    "ImportError: /x/site-packages/flash_attn_3/_C.abi3.so: undefined symbol: "
    "_ZN3c104cuda9SetDeviceEab"])
def test_flash_attention_3__is_not_repaired_by_installing_flash_attn(line):
    told = json.loads(run(line + "\n", "doctor", "--json", "-").stdout)
    assert {cause["package"] for cause in told["causes"]} == {"flash_attn_3"}


@pytest.mark.parametrize("said", ["Do we really need flash_attn? Can this be skipped?",
                                  "flash_attn 一定要吗？", "How to disable flash-attn?"])
def test_whether_it_is_needed__is_answered_first(said):
    shown = " ".join(run(said + "\n", "doctor", "-").stdout.decode().split())
    assert shown.find("run without flash-attn") < shown.find("which wheel fits")


@pytest.mark.parametrize("last", ["TypeError: 'NoneType' object is not callable",
                                  "ImportError: cannot import name 'apply_rotary' from 'x'",
                                  "NameError: name 'unpad_input' is not defined"])
def test_what_follows_from_a_failed_import__does_not_hide_it(last):
    warning = ("Warning: import flash_attn fail: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-"
               "gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi")
    told = json.loads(run(f"{warning}\n{last}\n", "doctor", "--json", "-").stdout)
    assert told["causes"][0]["id"] == "torch-minor-mismatch"
    notice = "Flash-Attn is not available, falling back to SDPA"
    told = json.loads(run(f"{notice}\n{last}\n", "doctor", "--json", "-").stdout)
    assert told["causes"]


def test_what_pip_says_to_everybody__hides_no_sentence():
    text = ("Hello\n\nthanks for this\nInstalling flash-attn eats all my RAM and the machine "
            "freezes while compiling.\n\nERROR: pip's dependency resolver does not currently "
            "take into account all the packages that are installed.\n")
    told = json.loads(run(text, "doctor", "--json", "-").stdout)
    assert told["causes"][0]["id"] == "oom-build" and told["causes"][0]["doubt"]


def test_a_guess_in_one_file__is_not_confirmed_by_the_same_line_of_another(tmp_path):
    (tmp_path / "a.log").write_text("hello\n\nflash attention 2 does not work on my T4\n")
    (tmp_path / "b.log").write_text("x\n\nerror: externally-managed-environment\n")
    told = json.loads(run("", "doctor", "--json", str(tmp_path / "a.log"),
                          str(tmp_path / "b.log")).stdout)
    assert told["error"]["file"] == "b.log" and told["error"]["line"] == 3
    assert told["causes"][0]["evidence"][0]["line"] == 3 and told["causes"][0]["doubt"]


def test_nothing_is_guessed_of_a_package_that_is_named(answers):
    for text, _, told, _ in answers:
        for cause in told["causes"]:
            assert cause["package"] in (None, "a package") or cause["doubt"] is None, text[:200]
    text = ("Building wheel for deepspeed (setup.py) ... error\n"
            "Command '['ninja', '-v']' returned non-zero exit status 1.\n")
    assert json.loads(run(text, "doctor", "--json", "-").stdout)["causes"] == []


@pytest.mark.parametrize("said", [
    "It comes only with sageattn in the loader; flash_attn_2 gives no error.",
    "With flash attention it is fine."])
def test_what_its_author_says_works_is_not_blamed(said):
    text = f"CUDA error: no kernel image is available for execution on the device\n\n{said}\n"
    told = json.loads(run(text, "doctor", "--json", "-").stdout)
    assert [cause for cause in told["causes"] if cause["package"] is None] == []


def test_a_message_that_a_person_quotes_does_not_hide_the_exception():
    text = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 29.76 GiB\n\n"
            "RTX 2060 Super\n"
            'With it I read "FlashAttention only supports Ampere GPUs or newer", I stopped\n')
    assert json.loads(run(text, "doctor", "--json", "-").stdout)["causes"][0]["id"] == \
        "gpu-memory-full"


def test_a_log_that_ends_in_a_frame_is_not_complete():
    text = ('Traceback (most recent call last):\n  File "/e/lib/python3.12/site-packages/'
            'flash_attn/__init__.py", line 3, in <module>\n'
            "    from flash_attn.flash_attn_interface import (\n")
    assert b"the error follows there" in run(text, "doctor", "-").stdout


@pytest.mark.parametrize("line, error", [
    ("- **Exception Message:** No module named 'torch.nn.attention'",
     "No module named 'torch.nn.attention'"),
    ("I get TypeError(\"dot() got an unexpected keyword argument 'trans_b'\")",
     "TypeError(\"dot() got an unexpected keyword argument 'trans_b'\")"),
    ('    raise ImportError("flash_attn")', None),
    ("Fatal Python error: Segmentation fault", "Fatal Python error: Segmentation fault"),
    ("INFO triton not used (No module named 'triton'), continuing", None),
    ("No module named 'No module named 'x", None),
    ("undefined symbol: c10::Error::Error", None)])
def test_an_exception__is_found_in_every_form(line, error):
    told = json.loads(run(line + "\n", "doctor", "--json", "-").stdout)
    assert (told["error"] or {"text": None})["text"] == error
