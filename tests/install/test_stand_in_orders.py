"""anyflash's own flash_attn in any order of commands: `import flash_attn` works, or finds no
such module; never does a module stay that cannot be imported."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PROGRAM, link, visible
from test_plan import fake_torch

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("GOVERN_SANITIZED")),
    reason="needs a build without sanitizers: Python, which loads the library, has none")

ENGINE = ("--prefer", "engine", "--here", "--given", "torch=2.9.1+cpu", "--given", "gpu=none")
COMMANDS = {
    "package": ("package", "install"),
    "stand-in": ("package", "install", "--stand-in"),
    "install": ("install", *ENGINE, "--offline"),
    "shim": ("shim", "install"),
    "shim remove": ("shim", "remove"),
    "undo": ("undo",),
    "undo first": ("undo", "1"),
}
DEPTH = 4 if os.environ.get("ANYFLASH_TEST_NIGHT") else 3
IMPORT = """
import torch
try:
    import flash_attn
    print("works", bool(flash_attn.__anyflash__))
except ModuleNotFoundError as error:
    print("missing", error.name)
"""


@pytest.fixture
def small(quick_place):
    fake_torch(quick_place)
    with (quick_place.site / "torch" / "__init__.py").open("a") as module:
        module.write("import sys\nsys.modules['flash_attn.flash_attn_interface'] = Nothing()\n")
    return quick_place


def keep(place, folder):
    for part in (place.site, place.state):
        if part.exists():
            shutil.copytree(part, folder / part.name, symlinks=True, copy_function=link)
    return folder


def put_back(place, folder):
    for part in (place.site, place.state):
        shutil.rmtree(part, ignore_errors=True)
        if (folder / part.name).exists():
            shutil.copytree(folder / part.name, part, symlinks=True,
                            copy_function=link)


def what_is_there(place):
    """Names what tells two states apart: the files, and what can be undone."""
    undoable = place.run("undo", "--list").stdout
    titles = [line.split("  ")[-1] for line in undoable.splitlines()]
    return json.dumps([sorted(visible(place.tree())), titles])


def python(place, code):
    return subprocess.run([place.venv / "bin/python", "-I", "-c", code], capture_output=True,
                          text=True, env=place.environment())


def assert_good(place, order):
    done = python(place, IMPORT)
    metadata = python(place, "import importlib.metadata as m; print(m.version('flash-attn'))")
    assert done.stdout in ("works True\n", "missing flash_attn\n"), (order, done.stderr)
    assert (metadata.returncode == 0) == done.stdout.startswith("works"), order


def follow(place, order, folder, seen):
    """Tries every command on a state; yields the orders that lead to a new one, now there."""
    put_back(place, folder)
    start = what_is_there(place)
    for name, words in COMMANDS.items():
        done = place.run(*words)
        after = (*order, name)
        assert done.returncode in (0, 1, 3), (after, done.all)
        state = what_is_there(place)
        if state not in seen:
            seen.add(state)
            yield after
        if state != start:
            put_back(place, folder)


def test_no_order_of_commands_leaves_a_broken_module(small, tmp_path):
    seen = {what_is_there(small)}
    states = [((), keep(small, tmp_path / "kept"))]
    for _ in range(DEPTH):
        found = []
        for order, folder in states:
            for after in follow(small, order, folder, seen):
                assert_good(small, after)
                found.append((after, keep(small, tmp_path / f"kept-{len(seen)}")))
        states = found
    assert len(seen) >= 6


def test_the_steps_of_plan_leave_no_trace_after_undo(small):
    before = small.tree()
    plan = json.loads(small.run("plan", *ENGINE, "--json").stdout)
    ours = [step["argv"] for step in plan["steps"] if step["kind"] == "own"]
    assert ours == [["anyflash", "package", "install", "--stand-in", "--python",
                     str(small.venv)]]
    for argv in ours:
        subprocess.run([PROGRAM, *argv[1:]], check=True, env=small.environment())
    assert python(small, IMPORT).stdout == "works True\n"
    done = small.run("undo")
    assert done.returncode == 0, done.all
    assert small.tree() == before


def test_undo_names_what_must_go_first(small):
    assert small.run("package", "install").returncode == 0
    assert small.run("shim", "install").returncode == 0
    done = small.run("undo")
    assert done.returncode == 1 and "anyflash shim remove" in done.stdout, done.all
    assert small.run("shim", "remove").returncode == 0
    done = small.run("undo")
    assert done.returncode == 0, done.all


def test_doctor_calls_a_stand_in_without_its_package_broken(small):
    assert small.run("package", "install").returncode == 0
    assert small.run("shim", "install").returncode == 0
    shutil.rmtree(small.site / "anyflash")
    shutil.rmtree(next(small.site.glob("anyflash-*.dist-info")))
    done = small.run("doctor")
    assert "broken  the installed flash-attn is anyflash's stand-in" in done.stdout
    assert "pip uninstall flash-attn" in done.stdout
    assert small.run("package", "install").returncode == 0
    assert python(small, IMPORT).stdout == "works True\n"


@pytest.mark.parametrize("words", [
    ("gpu=T4", "torch=2.6.0+cu124"), ("gpu=none", "torch=2.9.1+cpu"),
    ("gpu=RTX 4090", "torch=2.15.0+cu130"), ("gpu=MI300X", "torch=2.8.0+rocm6.4")])
def test_the_lone_program_plans_nothing_that_it_cannot_do(small, tmp_path, words):
    alone = shutil.copy(Path(PROGRAM).resolve(), tmp_path / "anyflash")
    given = [word for one in ("os=linux", "python=3.12", "arch=x86_64", *words)
             for word in ("--given", one)]
    plan = json.loads(subprocess.run([alone, "plan", *given, "--json"], check=True, text=True,
                                     env=small.environment(), stdout=subprocess.PIPE).stdout)
    assert plan["steps"]
    for step in plan["steps"]:
        argv = step["argv"] or [""]
        assert step["kind"] != "own" and "anyflash" not in argv[0], step
        assert "anyflash" not in argv, step
    done = small.run("package", "install", program=alone)
    assert done.returncode == 3 and "not beside this program" in done.stderr, done.all
