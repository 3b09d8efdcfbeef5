"""`package install`: anyflash's own Python package in an environment, and out of it again;
`install` where the plan is that package."""
import json
import os

import pytest

from conftest import visible

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("GOVERN_SANITIZED")),
    reason="needs a build without sanitizers: Python, which loads the library, has none")

LISTED = ("import importlib.metadata as m; d = m.distribution('anyflash');"
          "print(d.version, all(f.locate().exists() for f in d.files),"
          "d.read_text('INSTALLER').strip())")
ENGINE = ("--prefer", "engine", "--here", "--given", "torch=2.9.1+cpu", "--given", "gpu=none")


def version(place):
    return json.loads(place.run("version", "--json").stdout)["version"]


def test_it_comes_complete_and_goes_without_a_trace(place):
    before = place.tree()
    done = place.run("package", "install", "--offline")
    assert done.returncode == 0, done.all
    assert f"installed: anyflash {version(place)}" in done.stdout
    assert place.python(LISTED).stdout == f"{version(place)} True anyflash\n"
    done = place.run("undo")
    assert done.returncode == 0, done.all
    assert place.tree() == before


def test_nothing_else_changes(quick_place):
    place = quick_place
    before = place.tree()
    assert place.run("package", "install").returncode == 0
    after = visible(place.tree())
    new = {path for path in after if path not in before}
    site = str(place.site.relative_to(place.venv))
    assert all(path.startswith(f"{site}/anyflash") for path in new), sorted(new)[:5]
    assert {path: after[path] for path in before if path in after} == visible(before)


def test_the_package_works_there(quick_place):
    assert quick_place.run("package", "install").returncode == 0
    done = quick_place.python("import anyflash; anyflash.set_threads(1);"
                              "print(anyflash.threads())")
    assert done.stdout == "1\n", done.stderr
    done = quick_place.python("import runpy, sys; sys.argv = ['anyflash', 'version'];"
                              "runpy.run_module('anyflash', run_name='__main__')")
    assert done.stdout.startswith(f"anyflash {version(quick_place)}"), done.stderr


def test_a_second_time_there_is_nothing_to_do(quick_place):
    assert quick_place.run("package", "install").returncode == 0
    before = quick_place.tree()
    done = quick_place.run("package", "install", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0, done.all
    assert answer["answer"] == "yes" and not answer["changed"]
    assert quick_place.tree() == before


def test_another_version_is_not_replaced(quick_place):
    info = quick_place.site / "anyflash-0.0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anyflash\nVersion: 0.0.9\n")
    before = quick_place.tree()
    done = quick_place.run("package", "install")
    assert done.returncode == 1, done.all
    assert "anyflash 0.0.9 is already in this environment" in done.stdout
    assert quick_place.tree() == before


def test_dry_run_prints_the_step(quick_place):
    before = quick_place.tree()
    done = quick_place.run("package", "install", "--dry-run")
    assert done.returncode == 0, done.all
    assert "\n     anyflash package install --python" in done.stdout
    assert quick_place.tree() == before


def test_install_does_the_step_that_plan_prints(quick_place):
    plan = json.loads(quick_place.run("plan", *ENGINE, "--json").stdout)
    own = [step["argv"] for step in plan["steps"] if step["kind"] == "own"]
    assert own == [["anyflash", "package", "install", "--stand-in", "--python",
                    str(quick_place.venv)]]
    before = quick_place.tree()
    done = quick_place.run("install", *ENGINE, "--offline")
    assert done.returncode == 0, done.all
    listed = LISTED.replace("'anyflash'", "'flash-attn'")
    assert quick_place.python(listed).stdout == "2.8.3 True anyflash\n"
    assert quick_place.run("undo").returncode == 0
    assert quick_place.tree() == before


@pytest.mark.parametrize("words, text", [
    ([], "missing action of 'package'"),
    (["remove"], "'package' takes one action, install"),
    (["install", "more"], "'package' takes one action, install"),
])
def test_other_words_are_wrong_usage(quick_place, words, text):
    done = quick_place.run("package", *words)
    assert done.returncode == 2 and text in done.stderr and "hint:" in done.stderr


def test_the_program_runs_the_commands_of_the_package(quick_place):
    place = quick_place
    assert place.run("package", "install").returncode == 0
    (place.root / "anyflash.py").write_text("raise SystemExit('ran the file of this folder')")
    done = place.run("shim", "status", "--json")
    assert done.returncode == 1 and not json.loads(done.stdout)["installed"], done.all
    done = place.run("providers", "--json")
    assert done.returncode in (0, 1) and json.loads(done.stdout)["providers"], done.all
    done = place.run("shim", "instal")
    assert done.returncode == 2 and "instal" in done.stderr, done.all
