"""README.md prints what the program prints, every command of it is run somewhere, and a release
fills in the addresses."""
import json
import os
import re
import shlex
import subprocess

import pytest
import readme

README = (readme.ROOT / "README.md").read_text()
URL = "https://github.com/someone/anyflash"


def with_address(url=URL):
    script = readme.ROOT / "packaging" / "readme.sh"
    return subprocess.run([script], env={**os.environ, "URL": url}, capture_output=True,
                          text=True, check=True).stdout


def test_a_screen_of_the_readme_is_what_the_program_prints(anyflash):
    screens = [block for _, block in readme.blocks(README) if block.startswith("$ ")]
    assert screens
    for screen in screens:
        command, _, shown = screen.removeprefix("$ anyflash ").partition("\n")
        assert anyflash(*shlex.split(command), cwd=readme.ROOT).out == shown


def test_every_command_is_run_or_has_a_reason():
    every = [*readme.commands(README), *readme.commands(with_address())]
    for start in (*readme.WITH_FILES, *readme.ELSEWHERE):
        assert any(command.startswith(start) for command in every), f"not in README.md: {start}"
    fresh = readme.for_a_new_system(README)
    assert [line.split("  ")[0] for line in fresh[:3]] == [
        "make run", "make test", "sudo make install"]
    assert any(line.startswith("cc ") for line in fresh)


@pytest.mark.parametrize("command", readme.WITH_FILES)
def test_a_command_with_a_file_runs(anyflash, tmp_path, command):
    (tmp_path / "build.log").write_text("ModuleNotFoundError: No module named 'torch'\n"
                                        "ERROR: Failed to build 'flash-attn'\n")
    answer = anyflash(*shlex.split(command, comments=True)[1:])
    assert answer.code == 0 and "torch" in answer.out, answer


def test_a_release_fills_in_every_address():
    filled = with_address()
    assert with_address("") == README
    assert "@" not in filled and "<!--" not in filled and "-->" not in filled
    assert f"\ngit clone {URL} && cd anyflash\nmake run " in filled
    assert f"curl -L {URL}/releases/download/v" in filled
    assert "](https://someone.github.io/anyflash)" in filled


def test_the_readme_is_short_and_true_to_the_catalog(anyflash):
    assert len(README.splitlines()) <= 150
    count = json.loads(anyflash("version", "--json").out)["catalog"]["count"]
    assert re.findall(r"([\d,]+) published wheels", README) == [f"{count:,}"]


def test_nobody_is_told_to_install_anyflash_by_a_name_that_is_not_published():
    by_name = r"(pip install|uv add|uv tool install|uvx|pipx \w+) anyflash\b"
    assert not re.search(by_name, README)


def test_check_finds_nothing_in_this_repository(anyflash):
    answer = anyflash("check", str(readme.ROOT))
    assert answer.code == 0, answer
