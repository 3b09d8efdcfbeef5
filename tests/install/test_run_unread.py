"""What a command asks for without saying it in a way that `anyflash run` reads: options in one
word, settings of the installer, what a package needs, links. Nothing unchecked is installed, or
the command fails; combinations are drawn at random (ANYFLASH_TEST_SEED)."""
import os
import random
import subprocess

import pytest

from conftest import WHEEL_TAG, make_wheel
from test_offer import seen
from test_run import ARCH, call, project, version, write  # noqa: F401 (a fixture)

SEED = int(os.environ.get("ANYFLASH_TEST_SEED", "0")) or random.randrange(1, 10**6)
ENEMY = "who = 'enemy'"


@pytest.fixture
def enemy(project):  # noqa: F811
    """An index whose flash_attn is another one, and a package that needs flash_attn."""
    make_wheel(project.index, version="2.8.3", tag=WHEEL_TAG, requires=(), text=ENEMY)
    make_wheel(project.index, name="needs_flash", version="1.0", requires=("flash-attn>=2",))
    return project


def run(place, *words, env=None):
    start = (["uv", "pip", "install", "--python", place.venv] if place.installer == "uv"
             else [place.venv / "bin/python", "-m", "pip", "install"])
    words = call(place, *ARCH, "--", *start, "--no-index", "--find-links", place.index, *words)
    words = [str(word) for word in words]
    done = subprocess.run(words, cwd=place.root, capture_output=True,
                          text=True, timeout=300, env={**place.environment(), **(env or {})})
    done.all = f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def has_enemy(*folders):
    return [path for folder in folders for path in folder.rglob("flash_attn/__init__.py")
            if ENEMY in path.read_text()]


def test_short_options_in_one_word_are_read(enemy):
    rng = random.Random(f"{SEED} {enemy.installer}")
    write(enemy, "flash-attn==2.8.3\n")
    flags = "qvU" if enemy.installer == "pip" else "qUn"
    for _ in range(6):
        cluster = "".join(rng.sample(flags, rng.randrange(1, 3)))
        words = rng.choice([[f"-{cluster}r", "requirements.txt"],
                            [f"-{cluster}rrequirements.txt"], [f"-{cluster}", "flash-attn"]])
        done = run(enemy, *words)
        assert done.returncode == 0 and not has_enemy(enemy.site), f"seed {SEED} {done.all}"
        assert version(enemy) == "2.8.3" and enemy.run("undo").returncode == 0, done.all


SETTINGS = {
    "pip": [({"PIP_REQUIREMENT": "requirements.txt"}, None), ({"PIP_TARGET": "away"}, None),
            ({"PIP_PREFIX": "away"}, None), ({"PIP_EDITABLE": "."}, None),
            ({"PIP_CONFIG_FILE": "mine.conf"}, "[install]\nrequirement = requirements.txt\n"),
            ({"PIP_CONFIG_FILE": "mine.conf"}, "[global]\ntarget = away\n")],
    "uv": [({"UV_CONFIG_FILE": "mine.conf"}, '[pip]\ntarget = "away"\n'),
           ({"UV_CONFIG_FILE": "mine.conf"}, '[pip]\nprefix = "away"\n')],
}


@pytest.mark.parametrize("words", [["other"], ["flash-attn==2.8.3"]], ids=" ".join)
@pytest.mark.parametrize("installed", [False, True])
def test_settings_that_say_what_or_where_are_refused(enemy, words, installed):
    write(enemy, "flash-attn==2.8.3\n")
    if installed:
        assert run(enemy, "flash-attn==2.8.3").returncode == 0
    before = seen(enemy)
    for variables, text in SETTINGS[enemy.installer]:
        if text is not None:
            (enemy.root / "mine.conf").write_text(text)
        done = run(enemy, *words, env=variables)
        assert done.returncode == 1 and "not run: the settings of" in done.stdout, done.all
        assert seen(enemy) == before and not (enemy.root / "away").exists()


def test_the_start_of_an_option_is_refused(enemy):
    if enemy.installer == "uv":
        pytest.skip("uv itself takes no abbreviations")
    for word in ("--targ=away", "--req=requirements.txt", "--prefi=away", "--edit=."):
        done = run(enemy, word, "flash-attn==2.8.3")
        assert done.returncode == 1 and "is the start of an option" in done.stdout, done.all
    assert run(enemy, "--pre", "flash-attn==2.8.3").returncode == 0


def test_what_another_package_needs_is_not_taken_from_the_index(enemy):
    before = seen(enemy)
    done = run(enemy, "needs-flash")
    assert done.returncode != 0 and "add.flash.attn.to.the.command" in done.all, done.all
    assert not has_enemy(enemy.site) and seen(enemy) == before
    done = run(enemy, "needs-flash", "flash-attn")
    assert done.returncode == 0 and not has_enemy(enemy.site), done.all


def test_an_installed_flash_attn_that_the_command_replaces_is_an_error(enemy):
    assert run(enemy, "flash-attn==2.8.3").returncode == 0
    again = "--force-reinstall" if enemy.installer == "pip" else "--reinstall"
    done = run(enemy, again, "needs-flash")
    if has_enemy(enemy.site):
        assert done.returncode == 1 and "the command does not name it" in done.stderr, done.all
        assert enemy.run("undo").returncode == 0
    assert not has_enemy(enemy.site), done.all


def test_what_fits_is_not_installed_again_from_the_index(enemy):
    assert run(enemy, "flash-attn==2.8.3").returncode == 0
    before = seen(enemy)
    again = ({"pip": ["--force-reinstall", "-I", "--ignore-installed"],
              "uv": ["--reinstall", "--reinstall-package=flash-attn"]}[enemy.installer])
    for word in again:
        done = run(enemy, word, "flash-attn==2.8.3")
        assert done.returncode == 1 and "would install it again" in done.stdout, done.all
    name = "PIP_FORCE_REINSTALL" if enemy.installer == "pip" else "UV_REINSTALL"
    done = run(enemy, "flash-attn==2.8.3", env={name: "1"})
    assert done.returncode == 1 and "would install it again" in done.stdout, done.all
    assert seen(enemy) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_what_no_package_owns_is_not_written_into(enemy, is_link):
    checkout = enemy.root / "checkout/flash_attn"
    checkout.mkdir(parents=True)
    (checkout / "__init__.py").write_text("mine = 1\n")
    place = enemy.site / "flash_attn"
    if is_link:
        place.symlink_to(checkout)
    else:
        checkout.rename(place)
    before = seen(enemy)
    done = run(enemy, "flash-attn==2.8.3")
    assert done.returncode == 1 and "that no package owns" in done.stdout, done.all
    assert seen(enemy) == before
    assert (place / "__init__.py").read_text() == "mine = 1\n"


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_undo_gives_back_permissions_and_files_that_record_does_not_list(enemy, umask):
    old = os.umask(umask)
    try:
        assert run(enemy, "flash-attn==2.7.4").returncode == 0
        info = enemy.site / "flash_attn-2.7.4.dist-info"
        (info / "NOTES.txt").write_text("mine")
        before = seen(enemy)
        done = run(enemy, "flash-attn==2.8.3")
        assert done.returncode == 0, done.all
        assert (enemy.site / "flash_attn-2.8.3.dist-info/METADATA").exists(), done.all
        assert enemy.run("undo").returncode == 0
        assert (info / "NOTES.txt").read_text() == "mine"
        assert seen(enemy) == before
        (info / "NOTES.txt").unlink()
        undone = enemy.run("undo")  # of the first one, which finds its files as they were
        assert undone.returncode == 0, undone.all
    finally:
        os.umask(old)


def test_a_command_without_flash_attn_works_as_before(enemy):
    done = run(enemy, "other")
    assert done.returncode == 0 and (enemy.site / "other").is_dir(), done.all
    assert "does not ask for flash-attn" in done.stderr
