"""The man page and the completions contain every command and option."""
import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROGRAM
from test_words import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {"bash": "anyflash.bash", "zsh": "_anyflash", "fish": "anyflash.fish"}


def script_of(shell):
    return (ROOT / "packaging/completions" / SCRIPTS[shell]).read_text()


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


def test_completions_are_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "tools/completions.py", "--check"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_completion_names_every_command_and_option(shell):
    script = script_of(shell)
    option_form = "-l {}" if shell == "fish" else "--{}"
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", script)
    for option in options():
        assert re.search(re.escape(option_form.format(option)) + r"\b", script), option


@pytest.mark.parametrize("shell", SCRIPTS)
def test_completion_is_valid_for_its_shell(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}: package {shell}")
    done = subprocess.run([shell, "-n"], input=script_of(shell).encode(), capture_output=True)
    assert done.returncode == 0 and done.stderr == b""


@pytest.mark.parametrize("typed, expected", [
    (["anyflash", "pl"], "plan"),
    (["anyflash", "plan", "--pre"], "--prefer"),
    (["anyflash", "find", "--pre"], None),
    (["anyflash", "plan", "--prefer", "bu"], "build"),
    (["anyflash", "plan", "--prefer", "=", "bu"], "build"),
    (["anyflash", "help", "fi"], "find"),
    (["anyflash", "find", "--lim"], "--limit"),
    (["anyflash", "config", "py"], "pylock"),
    (["anyflash", "shim", "in"], "install"),
    (["anyflash", "plan", "--given", "cxx"], "cxx11abi="),
    (["anyflash", "doctor", "--explain", "torch-rep"], "torch-replaced"),
])
def test_bash_completes(typed, expected):
    if shutil.which("bash") is None:
        pytest.skip("needs bash: package bash")
    words = " ".join(f"'{word}'" for word in typed)
    script = script_of("bash") + (
        f"\ncompopt() {{ :; }}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}\n"
        '_anyflash; echo "${COMPREPLY[@]}"\n')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == (expected or "") and done.stderr == ""


@pytest.mark.parametrize("typed", ["anyflash doctor pip3", "anyflash plan -m pip3",
                                   "anyflash inspect --against pip3", "anyflash install pip3"])
def test_bash_completes_files_where_they_are_meant(tmp_path, typed):
    """Typed into an interactive bash: only readline itself completes files."""
    (tmp_path / "pip3.log").write_text("")
    (tmp_path / "rc").write_text(script_of("bash") + '\nanyflash() { echo "ran: $*"; exit; }\n')
    ours, theirs = pty.openpty()
    with subprocess.Popen(["bash", "--noprofile", "--rcfile", "rc", "-i"], cwd=tmp_path,
                          stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                          env={"PATH": "/usr/bin:/bin", "PS1": "", "TERM": "dumb"}):
        os.close(theirs)
        os.write(ours, f"{typed}\t\n".encode())
        shown = b""
        with contextlib.suppress(OSError):  # EIO: the shell has ended
            while chunk := os.read(ours, 4096):
                shown += chunk
    os.close(ours)
    assert f"ran: {typed.removeprefix('anyflash ')}.log".encode() in shown
