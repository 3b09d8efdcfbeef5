"""`anyflash run` where something else than the command's own words decides on torch: other
requirements, what an index has, what only a build tells. The real pip and uv answer, from a
local index."""
import json
import shlex
import signal
import subprocess
import time

import pytest

from conftest import WHEEL_TAG, make_wheel
from test_offer import seen
from test_run import (ARCH, OFFICIAL, call, leftovers, project, row, run,  # noqa: F401
                      start_sleeping, version, write)

DRY = (*ARCH, "--dry-run")


@pytest.fixture
def shelf(project):  # noqa: F811
    """The index has torch 2.7.1, 2.8.0 and 9.0.0, and packages that need one of them. There
    are wheels of flash-attn for torch 2.7 and 2.8."""
    for number in ("2.7.1", "2.8.0", "9.0.0"):
        make_wheel(project.index, name="torch", version=number, requires=())
    for name, number, need in (("old", "1.0", "torch==2.7.1"), ("same", "1.0", "torch==2.8.0"),
                               ("loose", "1.0", "torch>=2"), ("tied", "1.0", "torch==2.8.0"),
                               ("tied", "2.0", "torch==9.0.0")):
        make_wheel(project.index, name=name, version=number, requires=(need,))
    local = OFFICIAL.replace("2.8", "2.7")
    wheel = make_wheel(project.folder, version="2.8.3", local=local, tag=WHEEL_TAG)
    line = {**row(wheel, "2.8.3", local), "torch": "2.7"}
    with project.catalog.open("a") as catalog:
        catalog.write(json.dumps(line) + "\n")
    return project


def without_torch(place):
    for path in place.site.glob("torch*"):
        subprocess.run(["rm", "-r", path], check=True)
    return place


def test_torch_that_another_requirement_needs_replaces_the_installed_one(shelf):
    write(shelf, "old\nflash-attn\n")
    done = run(shelf, "-r", "requirements.txt", options=DRY)
    assert done.returncode == 0, done.all
    why = ("old 1.0 needs it" if shelf.installer == "pip"
           else "as uv resolves the other requirements")
    assert f": {why}" in done.stderr and "torch 2.7.1+cu" in done.stderr, done.all
    assert "torch2.7cxx11abiTRUE" in done.stderr, done.all


def test_installed_torch_that_the_others_allow_stays(shelf):
    done = run(shelf, "same", "flash-attn")
    assert done.returncode == 0 and "torch 2.8.0+cu128 stays" in done.stderr, done.all
    assert version(shelf) == "2.8.3" and (shelf.site / "same").is_dir()
    assert not [name for name in leftovers(shelf) if name.startswith("anyflash-run-")]


def test_a_silent_command_is_asked_as_well(shelf):
    write(shelf, "old\nflash-attn\n")
    done = run(shelf, "-qr", "requirements.txt", options=DRY)
    assert done.returncode == 0 and "torch 2.7.1" in done.stderr, done.all
    done = run(shelf, "-q", "--dry-run", "old", "flash-attn", options=DRY)
    assert done.returncode == 0 and "torch 2.7.1" in done.stderr, done.all


def test_torch_that_is_pinned_or_alone_is_not_asked_for(shelf):
    for words in (("old", "torch==2.8.0", "flash-attn"), ("torch", "flash-attn")):
        done = run(shelf, *words, options=DRY)
        assert done.returncode == 0 and "asking" not in done.stderr, done.all


def test_a_wheel_that_the_project_names_leaves_torch_to_the_others(shelf):
    done = run(shelf, "old", shelf.wheels[1], options=DRY)
    assert done.returncode == 0 and "torch 2.7.1" in done.stderr, done.all
    assert "which the project names" in done.stderr


def test_an_older_torch_with_a_wheel_serves_if_nothing_else_changes(shelf):
    without_torch(shelf)
    done = run(shelf, "loose", "flash-attn", options=DRY)
    assert done.returncode == 0 and "torch 9.0.0 has no wheel" in done.stderr, done.all
    assert "torch 2.8.0+cu" in done.stderr
    done = run(shelf, "tied", "flash-attn", options=(*DRY, "--prefer", "wheel"))
    assert done.returncode == 1 and "fits torch 9.0.0" in done.stdout, done.all


def test_what_the_installer_cannot_resolve_is_refused_in_its_words(shelf):
    before = seen(shelf)
    for words, reason in ((("old", "same", "flash-attn"), "same"),
                          (("no-such-package", "flash-attn"), "no-such-package")):
        done = run(shelf, *words)
        assert done.returncode == 1, done.all
        assert f"not run: {shelf.installer} does not say which torch" in done.stdout, done.all
        assert reason in done.stdout
    assert seen(shelf) == before


ANSWERS = {
    "uv": ["", "echo nothing", "echo 'Would install' >&2; printf ' + torch==\\n + ==1\\n' >&2",
           "yes | head -c 9000000 >&2", "exit 3", "exit 127"],
    "pip": ["", "printf '{' > $R", "printf '[]' > $R", "printf '{\"install\": 7}' > $R",
            "yes '{\"a\":' | head -c 9000000 > $R", "exit 3",
            "printf '\\000\\377' > $R"],
}


def test_answers_that_are_none_are_refused(shelf):
    name = "uv" if shelf.installer == "uv" else "pip"
    installer = shelf.bin / name
    for answer in ANSWERS[name]:
        installer.unlink(missing_ok=True)
        installer.write_text("#!/bin/sh\n"
                             'case "$*" in *config*|*--show-settings*) exit ;; esac\n'
                             'while [ $# -gt 0 ]; do [ "$1" = --report ] && R=$2; shift; done\n'
                             f"{answer}\n")
        installer.chmod(0o755)
        words = (["uv", "pip", "install", "--python", shelf.venv] if name == "uv"
                 else ["pip", "install"])
        if name == "pip" and not (shelf.bin / "python").exists():
            (shelf.bin / "python").symlink_to(shelf.venv / "bin/python")
        done = run(shelf, "--", *words, "loose", "flash-attn", options=DRY)
        is_empty = "Would install" in answer  # of which no line names a package
        assert done.returncode == (0 if is_empty else 1), (answer, done.all)
        assert is_empty or "does not say which torch" in done.stdout, (answer, done.all)
        assert ("no such program" in done.stdout) == (answer == "exit 127"), done.all


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_question_and_leaves_nothing(shelf, number):
    child = start_sleeping(shelf, "loose", "flash-attn", stdout=subprocess.PIPE, text=True)[2]
    time.sleep(0.2)
    child.send_signal(number)
    assert child.wait(timeout=30) == 130, child.communicate()
    assert leftovers(shelf) == []


@pytest.mark.parametrize("options", [ARCH, ("--arch", "9.0", "--prefer", "wheel")])
def test_the_undo_that_is_printed_can_be_run(project, options):  # noqa: F811
    done = run(project, "flash-attn==2.7.4", options=options)
    assert done.returncode == 0 and version(project) == "2.7.4", done.all
    printed = done.stderr.split("; `")[1].split("`")[0]
    words = [call(project)[0], *shlex.split(printed)[1:]]
    undone = subprocess.run(words, cwd=project.root, env=project.environment(),
                            capture_output=True, text=True)
    assert undone.returncode == 0, (printed, undone)
    assert version(project) == ""


@pytest.mark.parametrize("files", [
    {"setup.py": "from setuptools import setup; setup(install_requires=open('r.txt').read())"},
    {"pyproject.toml": "[project]\nname='a'\nversion='1'\ndynamic=['dependencies']\n"},
    {"pyproject.toml": "[tool.poetry]\nname='a'\nversion='1'\n"},
    {"pyproject.toml": "[project]\nname='a'\nversion='1'\ndynamic=['dependencies']\n"
                       "[tool.setuptools.dynamic]\ndependencies={file=['gone.txt']}\n"}])
def test_what_only_a_build_tells_is_unknown(project, files):  # noqa: F811
    for name, text in files.items():
        write(project, text, name)
    done = run(project, "-e", ".", options=DRY)
    assert "unknown whether the command asks for flash-attn" in done.stderr, done.all
    assert "does not ask" not in done.stderr


def test_a_repository_is_unknown_and_its_password_not_shown(project):  # noqa: F811
    done = run(project, "git+https://me:secret@host.invalid/x/flash-attention.git",
               options=DRY)
    assert "unknown whether" in done.stderr and "secret" not in done.all, done.all


@pytest.mark.parametrize("value", ["['needs/flash.txt']", "'needs/flash.txt'"])
def test_files_that_setuptools_reads_are_read(project, value):  # noqa: F811
    write(project, "flash-attn==2.7.4\n", "needs/flash.txt")
    head = "[project]\nname='a'\nversion='1'\n"
    write(project, f"{head}dynamic=['dependencies']\n[tool.setuptools.dynamic]\n"
                   f"dependencies={{file={value}}}\n", "pyproject.toml")
    done = run(project, ".", options=DRY)
    assert done.returncode == 0 and "flash_attn-2.7.4" in done.stderr, done.all
    write(project, f"{head}dynamic=['optional-dependencies']\n[tool.setuptools.dynamic]\n"
                   f"optional-dependencies.fast={{file={value}}}\n", "pyproject.toml")
    done = run(project, ".[fast]", options=DRY)
    assert done.returncode == 0 and "flash_attn-2.7.4" in done.stderr, done.all
    done = run(project, ".", options=DRY)
    assert "does not ask for flash-attn" in done.stderr, done.all


def test_an_index_without_cuda_gets_no_cuda_wheel(project):  # noqa: F811
    wanted = ("torch==2.8.0", "flash-attn")
    without_torch(project)
    cases = [(("--index-url", "https://host.invalid/whl/cpu"), {}),
             (("--extra-index-url=https://host.invalid/whl/cpu/",), {})]
    cases += ([(("--torch-backend=cpu",), {}), ((), {"UV_TORCH_BACKEND": "cpu"})]
              if project.installer == "uv" else
              [((), {"PIP_INDEX_URL": "https://host.invalid/whl/cpu"})])
    for words, variables in cases:
        done = run(project, *words, *wanted, options=DRY, env=variables)
        assert done.returncode == 1, done.all
        assert "torch 2.8.0+cpu has no CUDA" in done.stdout and "sdpa" in done.stdout, done.all
    done = run(project, *wanted, options=DRY)
    assert done.returncode == 0 and "2.8.3" in done.stderr, done.all


def test_the_publisher_of_a_community_wheel_is_named(project):  # noqa: F811
    text = project.catalog.read_text().replace("Dao-AILab/flash-attention", "somebody/wheels")
    project.catalog.write_text(text.replace('"official"', '"community"'))
    done = run(project, "flash-attn", options=DRY)
    assert done.returncode == 0, done.all
    assert "a community build by somebody" in done.stderr, done.all


@pytest.mark.parametrize("words", [("uv", "run", "--with", "flash-attn", "python", "x.py"),
                                   ("uv", "run", "--with", "flash-attn", "x.py")])
def test_uv_run_is_refused_with_the_way_to_install_first(project, words):  # noqa: F811
    done = run(project, "--", *words)
    assert done.returncode == 1 and "`uv run` installs" in done.stdout, done.all
    assert "anyflash run -- uv pip install flash-attn" in done.stdout
