"""What .github and .clusterfuzzlite name: every command exists, every action is pinned, and no
job may do more than it needs.
"""

import os
import pathlib
import re
import shlex
import subprocess
import zipfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [p for p in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if p.stem != "config"]
#: Programs of the machines on which the workflows run.
SYSTEM = set("apt-get cp date echo exit find gh git mkdir tail tee test touch".split())
#: Words around commands.
AROUND = {"{", "}", "!"}


def loaded(path):
    found = yaml.safe_load(path.read_text())
    # YAML reads the key `on` as true.
    return {("on" if key is True else key): value for key, value in found.items()}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def scripts(workflow):
    """Every text that a shell runs, those of a matrix included."""
    for job in workflow["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
        for step in job["steps"]:
            run = step.get("run", "")
            if run == "${{ matrix.run }}":
                yield from (row["run"] for row in rows)
            elif run:
                yield run


def shell_words(line):
    words = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    words.whitespace_split = True
    return list(words)


def commands(text):
    """The words of each command in a shell script, those in $(...) included."""
    inside = re.findall(r"\$\(([^)]*)\)", text)
    text = re.sub(r"\$\([^)]*\)", "X", text)
    text = re.sub(r"\d?>+(&\d| *\S+)", "", text)
    for line in [*inside, *text.splitlines()]:
        command = []
        for word in [*shell_words(line), ";"]:
            if word in ("&&", "||", ";", "|"):
                if command:
                    yield command
                command = []
            elif command or word not in AROUND:
                command.append(word)


def targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def tiers():
    return set(re.findall(r"^tier_([\w-]+)\(\)", (ROOT / "tests/run").read_text(), re.M))


def problem(words):
    """Why the command does not exist; None if it does."""
    first = words[0]
    if first == "make":
        named = [word for word in words[1:] if "=" not in word]
        return None if set(named) <= targets() else f"no target of make: {named}"
    if first == "tests/run":
        return None if words[1] in tiers() else f"no tier: {words[1]}"
    if first == "python3":
        script = next(word for word in words[1:] if not word.startswith("-"))
        return None if (ROOT / script).is_file() else f"no script {script}"
    if "/" in first:
        return None if os.access(ROOT / first, os.X_OK) else f"no program {first}"
    return None if first in SYSTEM else f"unknown command {first}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_of_a_workflow_exists(path):
    found = [words for text in scripts(loaded(path)) for words in commands(text)]
    assert found or path.stem == "fuzz"
    assert [why for why in map(problem, found) if why] == []


@pytest.mark.parametrize(
    "text",
    ["make relaese", "tests/run quik", "mkdir a && packaging/sign", 'test "$(python3 no.py)"'],
)
def test_a_command_that_does_not_exist_is_found(text):
    assert [why for why in map(problem, commands(text)) if why]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_jobs_have_only_the_rights_they_need(path):
    workflow = loaded(path)
    assert {"name", "on", "permissions", "jobs"} <= set(workflow)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        needed = job.get("needs", [])
        needed = [needed] if isinstance(needed, str) else needed
        assert job["runs-on"] and set(needed) <= set(workflow["jobs"])
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+(/[\w-]+)+@[0-9a-f]{40}", use) for use in used)
    lines = [line for line in path.read_text().splitlines() if " uses:" in line]
    assert all(re.search(r" # v\d", line) for line in lines), "no version beside the hash"


def test_one_action_has_one_version():
    found = {}
    for path in WORKFLOWS:
        for step in steps(loaded(path)):
            name, _, version = step.get("uses", "").partition("@")
            found.setdefault(name, set()).add(version)
    assert {name for name, versions in found.items() if len(versions) > 1} == set()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_valid_and_asks_for_the_machine(path):
    form = loaded(path)
    assert {"name", "description", "body"} <= set(form)
    ids = [part.get("id") for part in form["body"]]
    assert len(ids) == len(set(ids)) and None not in ids
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown", "checkboxes")
        assert part["attributes"]["label"]
    assert "`anyflash machine`" in path.read_text()


def test_the_commands_that_forms_name_exist():
    anyflash = os.environ["ANYFLASH"]
    text = "".join(path.read_text() for path in FORMS)
    named = set(re.findall(r"`anyflash ([a-z]+)", text))
    assert named == {"doctor", "find", "machine"}
    for command in named:
        done = subprocess.run([anyflash, command, "--help"], text=True, capture_output=True)
        assert done.returncode == 0


def test_clusterfuzzlite_builds_with_options_that_exist():
    folder = ROOT / ".clusterfuzzlite"
    assert yaml.safe_load((folder / "project.yaml").read_text()) == {"language": "c"}
    script = folder / "build.sh"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    options = set(re.findall(r"-D(ANYFLASH_\w+)", script.read_text()))
    known = set(re.findall(r"^option\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
    assert options and options <= known


#: Stands for cmake: "builds" every target that it is asked for.
FAKE_CMAKE = """#!/bin/sh
[ "$1" = --build ] || exit 0
folder=$2
shift 3
mkdir -p "$folder/tests"
for target; do touch "$folder/tests/$target"; done
"""


def test_clusterfuzzlite_gets_every_fuzz_target_with_its_seeds(tmp_path):
    (tmp_path / "cmake").write_text(FAKE_CMAKE)
    (tmp_path / "cmake").chmod(0o755)
    out = tmp_path / "out"
    out.mkdir()
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OUT": str(out), "WORK": str(tmp_path / "work")}
    subprocess.run(ROOT / ".clusterfuzzlite/build.sh", cwd=ROOT, env=environment, check=True)
    targets = {source.stem for source in (ROOT / "tests/fuzz").glob("fuzz_*.c")}
    corpora = {f"{target}_seed_corpus.zip" for target in targets}
    assert {path.name for path in out.iterdir()} == targets | corpora
    for target in targets:
        with zipfile.ZipFile(out / f"{target}_seed_corpus.zip") as corpus:
            names = os.listdir(tmp_path / "work/seeds" / target)
            assert names and sorted(corpus.namelist()) == sorted(names)


def test_the_image_of_clusterfuzzlite_has_what_the_build_needs():
    packages = (ROOT / "tools/packages.sh").read_text()
    needed = " ".join(re.findall(r'^base="(?:\$base )?(.*)"', packages, re.M)).split()
    recipe = (ROOT / ".clusterfuzzlite/Dockerfile").read_text().replace("\\\n", "")
    (line,) = re.findall(r"install -y --no-install-recommends (.*)", recipe)
    of_the_image = {"gcc", "libc6-dev", "cmake"}
    assert set(line.split()) == {*needed, "libcmocka-dev", "python3"} - of_the_image
