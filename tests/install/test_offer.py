"""What `anyflash run` leaves in the environment is, file by file, the wheel that was checked,
whatever else the command, its index and its variables offer; else the command fails and says
what differs. Combinations are drawn at random; ANYFLASH_TEST_SEED repeats a draw."""
import io
import json
import os
import random
import signal
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from conftest import KILLABLE, WHEEL_TAG, make_wheel, visible
from test_run import ARCH, OFFICIAL, call, command, leftovers, project, run, version, write

SEED = int(os.environ.get("ANYFLASH_TEST_SEED", "0")) or random.randrange(1, 10**6)
ENEMY = "who = 'enemy'"


def same(place, wheel):
    """Whether every file of the package in the environment has the wheel's bytes."""
    with zipfile.ZipFile(wheel) as archive:
        members = {one: archive.read(one) for one in archive.namelist()
                   if one.startswith("flash_attn/")}
    there = {str(path.relative_to(place.site)): path.read_bytes()
             for path in (place.site / "flash_attn").rglob("*")
             if path.is_file() and path.suffix != ".pyc"}
    return members == there


def enemies(folder):
    """What an index may have that beats the wheel, or has its name and another content."""
    make_wheel(folder, version="2.8.3", tag=WHEEL_TAG, requires=(), text=ENEMY)
    make_wheel(folder, version="2.8.3", tag=f"999-{WHEEL_TAG}", requires=(), text=ENEMY)
    make_wheel(folder, version="2.8.3", local="zzz", metadata_local=True, tag=WHEEL_TAG,
               requires=(), text=ENEMY)
    make_wheel(folder, version="2.8.3", local=OFFICIAL, tag=WHEEL_TAG, requires=(), text=ENEMY)
    make_wheel(folder, version="2.8.3.post7", tag=WHEEL_TAG, requires=(), text=ENEMY)
    with tarfile.open(folder / "flash_attn-2.8.3.tar.gz", "w:gz") as archive:
        for name in ("setup.py", "PKG-INFO"):
            text = b"raise SystemExit('compiled')\n"
            member = tarfile.TarInfo(f"flash_attn-2.8.3/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


def draw(rng, place):
    """One command: (words, variables)."""
    uv = place.installer == "uv"
    write(place, "other\nflash-attn>=2.8\n")
    write(place, "--pre\n--find-links enemies\nflash_attn==2.8.3 ; python_version > '3'\n",
          "deep.txt")
    write(place, "flash-attn<3\nother==1.0\n", "mine.txt")
    write(place, "other>=0.9\n", "more.txt")
    words = rng.choice([["flash-attn"], ["flash_attn==2.8.3"], ["-r", "requirements.txt"],
                        ["-r", "deep.txt"], ["other", "Flash.Attn~=2.8.0"],
                        ["flash-attn", "flash-attn!=2.9"], ["--", "flash-attn"]])
    options = [["--find-links", "enemies"], ["-c", "mine.txt"], ["--constraint=mine.txt"],
               ["--upgrade"], ["--no-deps"], ["--only-binary", ":none:"],
               ["--only-binary=:all:"], ["--prerelease", "allow"] if uv else ["--pre"],
               ["--reinstall-package", "flash-attn"] if uv else ["--force-reinstall",
                                                                 "--no-deps"],
               ["--link-mode", "copy"] if uv else ["--isolated"]]
    chosen = [word for one in rng.sample(options, rng.randrange(5)) for word in one]
    start = command(place)
    variables = {"FIND_LINKS": "enemies", "CONSTRAINT": "more.txt", "NO_INDEX": "1",
                 "PRERELEASE" if uv else "PRE": "allow" if uv else "1",
                 "LINK_MODE" if uv else "ONLY_BINARY": "copy" if uv else ":none:"}
    set_ = {("UV_" if uv else "PIP_") + name: value for name, value in
            rng.sample(sorted(variables.items()), rng.randrange(4))}
    return ["--", *start, *chosen, *words], set_


def test_the_checked_wheel_is_what_is_installed(project):
    rng = random.Random(f"{SEED} {project.installer}")
    (project.root / "enemies").mkdir()
    enemies(project.root / "enemies")
    enemies(project.index)
    for _ in range(10):
        words, variables = draw(rng, project)
        done = run(project, *words, env=variables)
        what = f"seed {SEED}, {variables} {' '.join(map(str, words))}\n{done.all}"
        if "would install it again" in done.stdout:
            assert done.returncode == 1 and "reinstall" in what, what
        else:
            assert done.returncode == 0, what
        assert same(project, project.wheels[1]), what
        origin = json.loads((project.site / "flash_attn-2.8.3.dist-info/direct_url.json")
                            .read_text())
        assert origin["url"].startswith("https://example.invalid/"), what
        if rng.random() < 0.8:
            assert project.run("undo").returncode == 0, what
    assert leftovers(project) == [name for name in project.own() if "-old-" in name]


def seen(project):
    """The files of the environment, without uv's lock."""
    return {key: value for key, value in visible(project.tree()).items() if key != ".lock"}


def wrap(project, before="true", after="true"):
    """Makes the installer do more: a stand-in for one that is attacked."""
    real = f"{project.venv}/bin/python -m pip"
    script = project.bin / "pip"
    if project.installer == "uv":
        script = project.bin / "uv"
        real = os.readlink(script)
        script.unlink()
    script.write_text(f"#!/bin/sh\ncase \" $* \" in *--show-settings*) exec {real} \"$@\" ;;\n"
                      f"*' install '*) ;; *) exec {real} \"$@\" ;; esac\n")
    with script.open("a") as file:
        file.write(f"{before}\n{real} \"$@\" || exit\ncd {project.site}\n{after}\nexit 0\n")
    python = project.bin / "python"
    python.write_text(f"#!/bin/sh\nexec {project.venv}/bin/python \"$@\"\n")
    for path in (script, python):
        path.chmod(0o755)


def bare(project, *words):
    return ["--", *(["uv", "pip", "install", "--python", project.venv] if
                    project.installer == "uv" else ["pip", "install"]),
            "--no-index", "-f", project.index, *words]


@pytest.mark.parametrize("code, difference", [
    ("echo 1 >> flash_attn/kernels.bin", "flash_attn/kernels.bin: another content"),
    ("rm flash_attn/kernels.bin", "flash_attn/kernels.bin: missing"),
    ("echo x > flash_attn/x.py; for r in flash_attn-*/RECORD; do echo flash_attn/x.py,, >> $r; "
     "done",
     "flash_attn/x.py: not in the wheel")])
def test_another_content_is_named_and_taken_back(project, code, difference):
    before = seen(project)
    wrap(project, after=code)
    done = run(project, *bare(project, "flash-attn==2.8.3"))
    assert done.returncode == 1, done.all
    assert f"is not the wheel that was checked: {difference}" in done.stderr, done.all
    undone = subprocess.run(undo_of(done), shell=True, cwd=project.root, text=True,
                            capture_output=True, env=with_program(project))
    assert undone.returncode == 0, undone
    assert seen(project) == before


def undo_of(done):
    """The command that a message names."""
    line = next(line for line in done.stderr.splitlines() if "takes it back" in line)
    return line.split("`")[1]


def with_program(project):
    environment = project.environment()
    folder = Path(call(project)[0]).resolve().parent
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def test_installed_one_that_fits_is_not_replaced(project):
    assert run(project, "flash-attn").returncode == 0
    enemies(project.index)
    done = run(project, "--upgrade", "flash-attn")
    assert done.returncode == 0 and same(project, project.wheels[1]), done.all


@pytest.mark.parametrize("form", ["./{name}", "flash-attn @ file://{path}", "{path}"])
def test_wheel_that_the_project_names_is_checked_like_any_other(project, form):
    good = make_wheel(project.root / "vendor", version="2.8.3", tag=WHEEL_TAG, requires=())
    bad = make_wheel(project.root / "evil", version="2.8.3", tag=WHEEL_TAG, requires=(),
                     files={"evil.pth": b"import os\n"})
    for wheel, code in ((bad, 1), (good, 0)):
        name = wheel.relative_to(project.root)
        write(project, form.format(name=name, path=wheel) + "\n")
        done = run(project, "-r", "requirements.txt")
        assert done.returncode == code, done.all
        assert "the project names" in done.stderr
        assert (version(project) == "2.8.3") == (code == 0), done.all
    assert "requirements.txt:1: " not in done.stdout
    assert same(project, good)


def test_file_that_changes_after_it_was_checked_is_named(project):
    wheel = make_wheel(project.root / "vendor", version="2.8.3", tag=WHEEL_TAG, requires=())
    other = make_wheel(project.root / "other", version="2.8.3", tag=WHEEL_TAG, requires=(),
                       text=ENEMY)
    wrap(project, before=f"cp {other} {wheel}")
    done = run(project, *bare(project, wheel))
    assert done.returncode == 1, done.all
    assert "flash_attn/__init__.py: another content" in done.stderr, done.all


def test_old_pip_is_refused_before_anything_runs(project):
    if project.installer == "uv":
        pytest.skip("pip's version")
    info = next(project.site.glob("pip-*.dist-info"))
    metadata = (info / "METADATA").read_text()
    line = next(line for line in metadata.splitlines() if line.startswith("Version:"))
    (info / "METADATA").write_text(metadata.replace(line, "Version: 20.3.4", 1))
    info.rename(info.with_name("pip-20.3.4.dist-info"))
    done = run(project, "flash-attn")
    assert done.returncode == 1 and "pip 20.3.4 takes no address" in done.stdout, done.all
    assert version(project) == ""


def test_extras_are_refused_where_pip_would_ignore_the_constraint(project):
    done = run(project, "flash-attn[x]")
    assert (done.returncode == 0) == (project.installer == "uv"), done.all
    assert done.returncode == 0 or "flash-attn has no extras 'x'" in done.stdout, done.all
    assert (version(project) == "2.8.3") == (done.returncode == 0)


def test_what_went_elsewhere_is_named(project):
    if project.installer == "uv":
        wrap(project, after=f"{os.readlink(project.bin / 'uv')} pip uninstall "
                            f"--python {project.venv} flash-attn")
    else:
        wrap(project, after=f"{project.venv}/bin/python -m pip uninstall -y flash-attn")
    done = run(project, *bare(project, "flash-attn==2.8.3"))
    assert done.returncode == 1 and "flash-attn is not in" in done.stderr, done.all


@pytest.mark.parametrize("older", [False, True])
def test_run_killed_at_every_step(project, older):
    """Recovery records what the installer did, or finds that it did nothing."""
    if older:
        assert run(project, "flash-attn==2.7.4").returncode == 0
    before = seen(project)
    outcomes = set()
    if project.installer == "pip":
        wrap(project)
    words = call(project, *ARCH, *bare(project, "flash-attn==2.8.3"))
    for step in range(1, 40):
        done = subprocess.run([KILLABLE, *map(str, words[1:])], cwd=project.root, text=True,
                              env={**project.environment(), "ANYFLASH_KILL_AT": str(step)},
                              capture_output=True, timeout=120)
        now = version(project)
        repaired = project.run("undo", "--recover")
        assert repaired.returncode == 0, repaired.all
        assert version(project) == now, "recovery changed what the installer left"
        assert "rolled back" not in repaired.stderr
        outcomes.add((now, "takes that back" in repaired.stderr,
                      "nothing was changed" in repaired.stderr,
                      "as it was before" in repaired.stderr))
        if now == "2.8.3":
            undone = project.run("undo")
            assert undone.returncode == 0, (step, done, repaired.all, undone.all)
        assert seen(project) == before, (step, repaired.all)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done
    old = "2.7.4" if older else ""
    assert done.returncode == 0 and step > 5
    assert {("2.8.3", True, False, False), (old, False, True, False)} <= outcomes, outcomes
