"""The commands that are printed as the next ones depend on the same options."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import PROGRAM, make_wheel, snapshot, visible
from test_plan import GIVEN, fake_torch

WITH_GPU = (*GIVEN, "--given", "driver=590")


def printed_command(shown):
    """The text between the backquotes, as a reader copies it."""
    found = re.search(r"^Next: `(anyflash install[^`]*)`\s+runs the steps below", shown, re.M)
    assert found, shown
    assert "\n" not in found[1]
    return found[1]


def linked(place):
    """(the environment under a path that needs quotes, a function that runs a command)."""
    fake_torch(place)
    (place.bin / "anyflash").symlink_to(PROGRAM)
    odd = place.root / "it's $HOME; odd"
    odd.symlink_to(place.venv)

    def run(command, **more):
        return subprocess.run(command, cwd=place.root, env=place.environment(),
                              capture_output=True, text=True, timeout=60, **more)
    return odd, run


@pytest.mark.parametrize("options", [
    ("--arch", "8.6"),
    ("--arch", "8.6", "--official"),
    ("--arch", "8.6", "--publishers", "Dao-AILab", "--version", "2.8.3"),
    ("--arch", "9.0", "--package", "flash_attn_4"),
    WITH_GPU,
    (*WITH_GPU, "--given", "torch=2.9.1+cu128"),
    (*WITH_GPU, "--given", "torch=2.15.0+cu132", "--prefer", "torch-change"),
])
def test_the_printed_command_installs_this_plan(quick_place, options):
    odd, run = linked(quick_place)
    words = [PROGRAM, "plan", *options, "--python", str(odd)]
    plan = json.loads(run([*words, "--json"]).stdout)
    command = printed_command(run(words).stdout)
    done = run(f"{command} --dry-run --json", shell=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert json.loads(done.stdout)["steps"] == plan["steps"] != []
    assert plan["next"]["kind"] == "install" and plan["next"]["command"] == command


@pytest.mark.parametrize("options", [("--prefer", "engine"), ("--arch", "7.5")])
def test_where_nothing_has_to_be_installed_each_step_is_a_command_that_runs(
        quick_place, options):
    odd, run = linked(quick_place)
    words = [PROGRAM, "plan", *options, "--python", str(odd)]
    plan = json.loads(run([*words, "--json"]).stdout)
    assert plan["next"]["kind"] == "steps" and plan["next"]["command"] is None
    assert not run(words).stdout.startswith("Next") and "\nNext: " not in run(words).stdout
    command, = [step["command"] for step in plan["steps"] if step["kind"] == "own"]
    done = run(command, shell=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert (quick_place.site / "flash_attn").is_dir()
    assert run([PROGRAM, "undo", "--python", str(odd)]).returncode == 0
    assert not (quick_place.site / "flash_attn").exists()


@pytest.mark.parametrize("options", [
    ("--prefer", "engine"),
    ("--arch", "8.6", "--official"),
    ("--arch", "8.6", "--publishers", "Dao-AILab"),
    (*WITH_GPU, "--given", "torch=2.9.1+cu128"),
])
def test_the_plan_that_doctor_names_has_the_steps_of_doctor(quick_place, options):
    odd, run = linked(quick_place)
    words = [PROGRAM, "doctor", *options, "--python", str(odd)]
    following = json.loads(run([*words, "--json"]).stdout)["next"]
    steps = following["steps"]
    shown = run(words).stdout
    found = re.search(r"more steps?\s+\(see\s+`(anyflash plan[^`\n]*)`\)", shown)
    assert found, shown
    plan = json.loads(run(f"{found[1]} --json", shell=True).stdout)
    assert plan["steps"] == steps != []
    assert following["command"] == plan["next"]["command"]
    assert (following["command"] is None) == ("engine" in options)


def test_verify_and_install_name_the_plan_for_the_same_environment(quick_place):
    place = quick_place
    fake_torch(place)
    options = ["--python", str(place.venv)]
    verify = subprocess.run([PROGRAM, "verify", *options], env=place.environment(),
                            capture_output=True, text=True, timeout=60).stdout
    assert f"`anyflash plan --python {place.venv}`\n" in verify
    words = ["install", "--prefer", "wheel", "--arch", "3.7", "--dry-run"]  # no wheel fits
    install = subprocess.run([PROGRAM, *words, *options], env=place.environment(),
                             capture_output=True, text=True, timeout=60).stdout
    assert "`anyflash plan --prefer wheel" in install and str(place.venv) in install


@pytest.mark.parametrize("command", ["plan", "install"])
def test_the_printed_undo_takes_back_this_environments_installation(quick_place, command):
    place = quick_place
    (place.bin / "anyflash").symlink_to(PROGRAM)
    wheel = make_wheel(place.root / "wheels")
    project = place.root / "project"
    project.mkdir()
    shutil.copytree(place.venv, project / ".venv", symlinks=True)

    def run(*words, **more):
        return subprocess.run(*words, cwd=project, env=place.environment(),
                              capture_output=True, text=True, timeout=60, **more)

    fake_torch(place)
    other = ["--python", "../venv"]
    before = {python: visible(snapshot(project / python)) for python in (".venv", "../venv")}
    shown = run([PROGRAM, "plan", *WITH_GPU, "--given", "torch=2.9.1+cu128", *other]).stdout
    for python in (".venv", "../venv"):
        done = run([PROGRAM, "install", str(wheel), "--python", python])
        assert done.returncode == 0, (done.stdout, done.stderr)
        shown = done.stdout if command == "install" and python == "../venv" else shown
    between = visible(snapshot(project / ".venv"))
    undo = re.search(r"`(anyflash undo[^`\n]*)`\s+undoes", shown)
    assert undo, shown
    done = run(undo[1], shell=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert visible(snapshot(place.venv)) == before["../venv"]
    assert visible(snapshot(project / ".venv")) == between != before[".venv"]


def test_undo_names_the_later_installation_of_the_same_environment(quick_place):
    place = quick_place
    for version in ("2.7.4", "2.8.3"):
        assert place.run("install", make_wheel(place.root, version=version)).returncode == 0
    done = place.run("undo", "1")
    assert done.returncode == 1, done.all
    assert f"`anyflash undo 2 --python {place.venv}`" in " ".join(done.stdout.split()), done.all


def test_the_inspection_after_a_refusal_is_of_the_same_environment(quick_place):
    place = quick_place
    fake_torch(place)
    (place.root / "bad").mkdir()
    bad = make_wheel(place.root / "bad", files={"flash_attn_2_cuda.so": b"\x7fELF"})
    done = place.run("install", bad)
    assert done.returncode != 0, done.all
    prefix = place.venv.resolve()
    assert f"`anyflash inspect {bad} --against {prefix}`" in done.all, done.all


def test_inspect_names_the_installation_for_the_same_gpu(quick_place):
    place = quick_place
    fake_torch(place)
    wheel = make_wheel(place.root)
    done = place.run("inspect", wheel, "--arch", "8.6")
    command = f"anyflash install {wheel} --python {place.venv} --arch 8.6"
    assert command in " ".join(done.stdout.replace("\\\n", "").split()), done.all
