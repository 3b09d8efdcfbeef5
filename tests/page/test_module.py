"""The WebAssembly module imports nothing and gives the same answers as the program."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/doctor")]
import logs as recorded_logs
import schemas

PROGRAM = os.environ.get("ANYFLASH", "")
MODULE = pathlib.Path(PROGRAM).parent / "anyflash.wasm"
FOLDERS = ["tests/cases/machines", "examples/machines"]
RECORDS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.json"))
RECORDS += sorted((ROOT / "tests/machine/pasted").glob("*.txt"))
GIVEN = ["os=linux", "arch=x86_64", "python=3.12", "torch=2.9.1+cu128", "gpu=RTX 4090",
         "glibc=2.35"]
SEARCHES = [["torch=2.9", "python=3.12", "cuda=12"], ["2.8.3", "cp311", "abi=true"],
            ["nothing=1"]]

NOT_OURS = re.compile(r"pip install( -\S+)* anyflash\b")  # a name that anybody may register

pytestmark = pytest.mark.skipif(
    not MODULE.exists() or not shutil.which("node"),
    reason="needs node (package nodejs), and a build with the module (packages clang, lld, "
           "wasi-libc; tools/debian_sources.sh build/wasm jansson libzstd)")


def ask(requests):
    """The module's answers to `requests`, as texts."""
    lines = "\n".join(json.dumps(request) for request in requests)
    done = subprocess.run(["node", pathlib.Path(__file__).with_name("ask_module.js"), MODULE],
                          input=lines, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def native(*words, tmp_path, **options):
    """The program's stdout for a user with an empty home folder."""
    home = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": ""}
    done = subprocess.run([PROGRAM, *words], text=True, capture_output=True, env=home,
                          **options)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def request_of(path, command="plan", **more):
    machine = {"name": path.name, "record": path.read_bytes().decode(),
               "assume": command != "machine"}
    return {"command": command, "machines": [machine], **more}


def test_module__is_compiled_from_no_source_that_it_does_not_need():
    """The exclusions in cmake/Wasm.cmake are complete: each source has a part in the link."""
    inputs = subprocess.run(["ninja", "-C", MODULE.parent, "-t", "query", MODULE.name],
                            text=True, capture_output=True, check=True).stdout
    linked = MODULE.with_suffix(".wasm.map").read_text()
    objects = {path: f"{path.stem}-{hashlib.md5(str(path).encode()).hexdigest()}.o"
               for room in ("engine", "kit", "page") for path in ROOT.glob(f"{room}/**/*.c")}
    compiled = [path for path in objects if objects[path] in inputs]
    assert len(compiled) > 50
    assert [path for path in compiled if f"{objects[path]}:(" not in linked] == []


def test_module__plans_every_recorded_machine_as_the_program_does(tmp_path):
    answers = ask([request_of(path) for path in RECORDS])
    assert len(answers) == len(RECORDS) > 20
    for path, answer in zip(RECORDS, answers):
        assert answer == native("plan", "--json", "--machine", path.name, tmp_path=tmp_path,
                                cwd=path.parent), path.name
        assert not NOT_OURS.search(answer), path.name


def test_module__writes_every_record_as_the_program_does(tmp_path):
    answers = ask([request_of(path, "machine") for path in RECORDS])
    for path, answer in zip(RECORDS, answers):
        assert answer == native("machine", "--machine", path.name, tmp_path=tmp_path,
                                cwd=path.parent), path.name


def test_module__takes_facts_by_hand_and_options(tmp_path):
    machine = {"name": "the machine described with --given", "given": GIVEN}
    options = {"prefer": "build", "head_dim": "64", "dtype": "bf16", "inference": True}
    [answer] = ask([{"command": "plan", "machines": [machine], "options": options}])
    words = [word for fact in GIVEN for word in ("--given", fact)]
    assert answer == native("plan", "--json", *words, "--prefer", "build", "--head-dim", "64",
                            "--dtype", "bf16", "--inference", tmp_path=tmp_path)


@pytest.mark.parametrize("given", [
    ["gpu=RTX 3060", "os=windows", "python=3.11", "torch=2.6.0+cu124", "driver=570"],
    ["gpu=RTX 4090", "torch=2.1.2+cu121"], ["gpu=T4"], ["torch=2.9.1+cu128"]])
def test_module__assumes_for_facts_given_by_hand_what_the_program_assumes(given, tmp_path):
    machine = {"name": "the machine described with --given", "given": given, "assume": True}
    words = [word for fact in given for word in ("--given", fact)]
    plan, candidates = ask([{"command": "plan", "machines": [machine]},
                            {"command": "candidates", "machines": [machine], "limit": 7}])
    assert plan == native("plan", "--json", *words, tmp_path=tmp_path)
    assert candidates == native("plan", "--all", "--limit", "7", "--json", *words,
                                tmp_path=tmp_path)


@pytest.mark.parametrize("word", ["python=banana", "os=beos", "torch=kiwi", "libc=x"])
def test_module__refuses_facts_that_the_program_refuses(word):
    machine = {"name": "x", "given": [word]}
    done = subprocess.run([PROGRAM, "plan", "--given", word], text=True, capture_output=True)
    assert done.returncode == 2
    taken_back = {"name": "x", "given": [word.split("=")[0] + "=unknown"]}
    plan, choices, unknown = map(json.loads, ask([
        {"command": command, "machines": [one]} for command, one in (
            ("plan", machine), ("choices", machine), ("plan", taken_back))]))
    assert plan["error"]["message"] in done.stderr
    assert "error" not in choices and "error" not in unknown


def test_module__choices_name_what_is_assumed():
    facts = choices_of({"name": "x", "given": ["gpu=RTX 3060"], "assume": True})["facts"]
    assumed = {fact["key"]: fact["value"] for fact in facts if fact["source"] == "assumed"}
    assert assumed == {"os": "linux", "arch": "x86_64", "python": "3.12"}


def test_module__decides_cells_of_the_matrix_as_the_program_does(tmp_path):
    given = [fact for fact in GIVEN if not fact.startswith("torch")]
    words = [word for fact in given for word in ("--given", fact)]
    machine = {"name": "x", "given": given}
    cells = [{"torch": row["torch"], "build": build}
             for row in choices_of(machine)["rows"] for build in row["builds"]][::5]
    answers = ask([{"command": "cell", "machines": [machine], **cell} for cell in cells])
    for cell, answer in zip(cells, map(json.loads, answers), strict=True):
        torch = f"torch={cell['torch']}+{cell['build']}"
        plan = json.loads(native("plan", "--json", *words, "--given", torch, tmp_path=tmp_path))
        assert {**cell, "way": plan["way"], "headline": plan["headline"]} == {
            key: answer[key] for key in ("torch", "build", "way", "headline")}


@pytest.mark.parametrize("words", SEARCHES)
def test_module__finds_what_the_program_finds(words, tmp_path):
    [answer] = ask([{"command": "find", "words": words, "limit": 5}])
    if "error" in answer[:12]:
        done = subprocess.run([PROGRAM, "find", "--json", *words], text=True,
                              capture_output=True)
        assert done.returncode == 2
        assert json.loads(answer)["error"]["message"] in done.stderr
    else:
        assert answer == native("find", "--json", "--limit", "5", *words, tmp_path=tmp_path)


def reported_failures():
    """The failures that people reported, as (text of the log, words for --given)."""
    for name in ["cases.jsonl", "threads.jsonl"]:
        for line in (ROOT / "tests/doctor" / name).read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            facts = case.get("env") or {"arch": "x86_64"}
            yield case["symptom"], [f"{key}={json.dumps(value).strip(chr(34))}"
                                    for key, value in facts.items()]


def test_module__diagnoses_reported_failures_as_the_program_does(tmp_path):
    requests, commands = [], []
    for number, (symptom, given) in enumerate(reported_failures()):
        log = tmp_path / f"{number}.log"
        log.write_text(symptom, encoding="utf-8")
        requests.append({"command": "doctor", "logs": [{"name": log.name, "path": str(log)}],
                         "machines": [{"name": "the machine of the log", "given": given}]})
        commands.append(["doctor", "--json", str(log),
                         *(word for fact in given for word in ("--given", fact))])
    assert len(commands) > 250
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(lambda words: native(*words, tmp_path=tmp_path), commands))
    for command, answer, expected in zip(commands, ask(requests), printed):
        assert answer == expected, command
        assert not NOT_OURS.search(answer), command


def test_module__diagnoses_logs_without_and_with_a_record(tmp_path):
    record = ROOT / "examples/machines/rtx4090-torch2.15.json"
    machine = {"name": record.name, "record": record.read_text()}
    requests, printed = [], []
    for log in recorded_logs.unpack(tmp_path)[::40]:
        logs = [{"name": log.name, "path": str(log)}]
        requests.append({"command": "doctor", "logs": logs})
        requests.append({"command": "doctor", "logs": logs * 2, "machines": [machine]})
        printed.append(native("doctor", "--json", str(log), tmp_path=tmp_path))
        printed.append(native("doctor", "--json", "--machine", record.name, str(log), str(log),
                              tmp_path=tmp_path, cwd=record.parent))
    assert ask(requests) == printed


def choices_of(machine):
    [answer] = ask([{"command": "choices", "machines": [machine]}])
    schemas.check(answer)
    return json.loads(answer)


def test_module__choices_are_filled_with_what_the_text_says_and_where():
    path = ROOT / "tests/machine/pasted/collect_env_windows.txt"
    answer = choices_of({"name": "your text", "record": path.read_text()})
    said = {fact["key"]: (fact["value"], fact["source"]) for fact in answer["facts"]}
    assert said["torch"] == ("2.6.0", "line 4 of your text")
    assert said["torch_cuda"] == ("cu124", "line 4 of your text")
    assert said["os"] == ("windows", "line 16 of your text")
    assert said["libc"][0] is None
    [windows] = [row["builds"] for row in answer["rows"] if row["torch"].startswith("2.6")]
    assert "cu124" in windows


def said_by(machines):
    """The facts of the menus that the text of each machine states, as {key: value}."""
    answers = ask([{"command": "choices", "machines": [machine]} for machine in machines])
    return [{fact["key"]: fact["value"] for fact in json.loads(answer)["facts"]}
            for answer in answers]


def words_for(said):
    """As page.js writes them: torch and its build are one word."""
    rest = {key: value for key, value in said.items() if not key.startswith("torch")}
    words = [f"{key}={value}" for key, value in rest.items() if value]
    build = said["torch_cuda"] if said["torch"] != "none" else None
    if said["torch"]:
        words.append(f"torch={said['torch']}" + (f"+{build}" if build else ""))
    return words


def test_module__what_choices_say_means_the_same_as_given():
    """A link carries the values of the menus: they describe the same machine."""
    before = said_by([{"name": "x", "record": path.read_text()} for path in RECORDS])
    after = said_by([{"name": "x", "given": words_for(said)} for said in before])
    for path, one, other in zip(RECORDS, before, after):
        for key, value in one.items():
            assert value is None or other[key] == value, (path.name, key)


def test_module__every_choice_is_understood_by_given():
    facts = choices_of({"name": "x", "given": []})["facts"]
    words = [(fact["key"], choice["value"]) for fact in facts for choice in fact["choices"]]
    assert len(words) > 150
    machines = [{"name": "x", "given": [f"torch=2.9.1+{value}" if key == "torch_cuda"
                                        else f"{key}={value}"]} for key, value in words]
    for (key, value), said in zip(words, said_by(machines)):
        assert said[key] == value, (key, value)


@pytest.mark.parametrize("name, start", [
    ("uv", ["uv", "pip", "install"]), ("pip", ["python", "-m", "pip", "install"]),
    ("conda", ["python", "-m", "pip", "install"]),
    ("portable", [".\\python_embeded\\python.exe", "-m", "pip", "install"])])
def test_module__steps_use_the_installer_that_was_chosen(name, start):
    installers = choices_of({"name": "x", "given": []})["installers"]
    [words] = [one["words"] for one in installers if one["name"] == name]
    [answer] = ask([{"command": "plan", "machines": [{"name": "x", "given": GIVEN + words}]}])
    [step] = [step for step in json.loads(answer)["steps"] if step["kind"] == "wheel"]
    assert step["argv"][:len(start)] == start


def test_module__one_log_answers_several_requests(tmp_path):
    log = next(path for path in recorded_logs.unpack(tmp_path) if "failures" in str(path))
    logs = [{"name": log.name, "path": str(log)}]
    given = [{"name": "x", "given": ["torch=2.9.1+cu128"]}]
    plain, changed, again, plan = ask_in_turn(logs, [
        {"command": "doctor"}, {"command": "doctor", "machines": given}, {"command": "doctor"},
        {"command": "plan", "machines": [{"name": "x", "log": True}]}])
    assert plain == again == native("doctor", "--json", str(log), tmp_path=tmp_path)
    assert json.loads(changed)["facts"] == "the log, then --given"
    assert json.loads(plan)["schema"] == "anyflash-plan/1"


def test_module__explains_a_cause_as_the_program_does(tmp_path):
    [answer] = ask([{"command": "cause", "cause": "glibc-too-old"}])
    [cause] = json.loads(native("doctor", "--explain", "glibc-too-old", "--json",
                                tmp_path=tmp_path))["causes"]
    assert json.loads(answer) == cause


def ask_in_turn(logs, requests):
    """Answers to requests about the same logs, which are passed to the module once."""
    first, *rest = requests
    return ask([{**first, "logs": logs}, *({**one, "keep_logs": True} for one in rest)])


@pytest.mark.parametrize("request_text, message", [
    ("[]", "\"command\" is plan, candidates, find, machine, doctor, choices, "
     "cell or cause"),
    ("{\"command\": \"fly\"}", "\"command\" is plan, candidates, find, machine"),
    ("{\"command\": \"doctor\"}", "\"doctor\" needs a log"),
    ("{\"command\": \"cell\"}", "a cell has \"torch\" and \"build\""),
    ("{\"command\": \"cause\", \"cause\": \"x\"}", "there is no such cause"),
    ("{\"command\": \"cell\", \"torch\": \"2\", \"build\": \"\"}", "no machine"),
    ("{", "'request' line 1"),
    ("{\"command\": \"plan\", \"machines\": [{}]}", "a machine without a name"),
    ("{\"command\": \"plan\", \"machines\": [{\"name\": \"a\", \"record\": \"{\"}]}",
     "'a' line 1"),
    ("{\"command\": \"plan\", \"options\": {\"arch\": \"x\"}}", "--arch"),
    ("{\"command\": \"plan\"}", "no machine"),
])
def test_module__says_what_is_wrong_with_a_request(request_text, message):
    done = subprocess.run(["node", pathlib.Path(__file__).with_name("ask_module.js"), MODULE],
                          input=request_text, text=True, capture_output=True, check=True)
    answer = json.loads(json.loads(done.stdout))
    assert message in answer["error"]["message"]
