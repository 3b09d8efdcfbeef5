"""The man page and the completions contain every command and option."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAM
from test_words import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def options():
    """All options that appear in the help of any command."""
    found = set()
    for command in COMMANDS:
        done = subprocess.run([PROGRAM, "help", command], capture_output=True, text=True)
        found |= set(re.findall(r"^\s+(?:-., )?--([a-z0-9-]+)", done.stdout, re.M))
    return sorted(found)


def test_man_page_names_every_command_and_option(anyflash):
    page = anyflash("help", "--man").out
    plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
    assert page.startswith(".TH ANYFLASH 1 ")
    for command in COMMANDS:
        assert f'.SS "{command} ' in page
    assert len(options()) > 15
    for option in options():
        assert f"--{option}" in plain
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT",
                    "FILES", "EXAMPLES"):
        assert f".SH {section}\n" in page


def test_man_page_names_every_variable_that_the_sources_read(anyflash):
    sources = [*(ROOT / "kit").rglob("*.c"), *(ROOT / "python").rglob("*.py")]
    read = r'(?:getenv\(|environ\.get\(|environ\[)"(ANYFLASH_\w+)"'
    found = {name for path in sources for name in re.findall(read, path.read_text())}
    assert len(found) > 5
    page = anyflash("help", "--man").out
    environment = page[page.index(".SH ENVIRONMENT"):page.index(".SH FILES")]
    assert found - {"ANYFLASH_KILL_AT"} == set(re.findall(r"ANYFLASH_\w+", environment))
    for name in ("VIRTUAL_ENV", "CUDA_HOME", "NO_COLOR"):
        assert name in environment


def test_man_page_has_the_examples_of_the_overview(anyflash):
    page = anyflash("help", "--man").out.replace("\\-", "-").replace("\\e", "\\")
    overview = anyflash("help").out
    lines = re.search(r"Examples:\n(.*?)\n\n", overview, re.DOTALL)[1].splitlines()
    commands = [re.split("  +", line.strip())[0] for line in lines]
    assert len(commands) > 4 and "--given gpu=rtx4090" in commands
    for command in commands:
        assert command in page[page.index(".SH EXAMPLES"):]


def test_man_page_renders_without_warnings(anyflash):
    if shutil.which("groff") is None:
        pytest.skip("needs groff: package groff")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], capture_output=True,
                          input=anyflash("help", "--man").out.encode())
    assert done.returncode == 0 and done.stderr == b""
    # groff releases mark up text differently: escape sequences, overstriking or nothing.
    assert b"ANYFLASH(1)" in re.sub(rb"\x1b\[[0-9;]*m|.\x08", b"", done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command_and_option(anyflash, shell):
    script = anyflash("completion", shell).out
    option_form = "-l {}" if shell == "fish" else "--{}"
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", script)
    for option in options():
        assert re.search(re.escape(option_form.format(option)) + r"\b", script), option


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_valid_for_its_shell(anyflash, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}: package {shell}")
    script = anyflash("completion", shell).out
    done = subprocess.run([shell, "-n"], input=script.encode(), capture_output=True)
    assert done.returncode == 0 and done.stderr == b""


@pytest.mark.parametrize("typed, expected", [
    (["anyflash", "pl"], "plan"),
    (["anyflash", "plan", "--pre"], "--prefer"),
    (["anyflash", "find", "--pre"], None),
    (["anyflash", "plan", "--prefer", "bu"], "build"),
    (["anyflash", "plan", "--prefer", "=", "bu"], "build"),
    (["anyflash", "help", "fi"], "find"),
    (["anyflash", "find", "--ht"], "--html"),
    (["anyflash", "find", "--form"], None),
    (["anyflash", "build", "--matrix", "--format", "g"], "github"),
    (["anyflash", "build", "--check", "--format", "=", "t"], "text"),
    (["anyflash", "build", "--toolkit", "sy"], "system"),
])
def test_bash_completes(anyflash, typed, expected):
    if shutil.which("bash") is None:
        pytest.skip("needs bash: package bash")
    words = " ".join(f"'{word}'" for word in typed)
    script = anyflash("completion", "bash").out + (
        f"\ncompopt() {{ :; }}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}\n"
        '_anyflash; echo "${COMPREPLY[@]}"\n')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == (expected or "") and done.stderr == ""
