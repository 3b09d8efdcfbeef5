"""Parsing the command line: commands, options, and the messages for wrong ones."""
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import PROGRAM

TABLE = pathlib.Path(__file__).resolve().parents[2] / "kit/cli/commands.inc"
COMMANDS = re.findall(r"^AF_COMMAND\(\s*\w+, (\w+),", TABLE.read_text(), re.M)


def test_version_prints_the_version(anyflash):
    answer = anyflash("version")
    assert answer.code == 0 and answer.out.startswith("anyflash 0.")


def test_double_dash_version_alone_is_the_programs_version(anyflash):
    assert anyflash("--version").out.startswith("anyflash 0.")


def test_double_dash_version_takes_the_options_of_version(anyflash):
    assert anyflash("-V").out == anyflash("--version").out
    assert anyflash("--version", "--json").out == anyflash("version", "--json").out
    assert anyflash("--version", "-q").out == anyflash("version", "-q").out


def test_help_shows_what_a_shared_option_means_for_the_command(anyflash):
    for command in ("build", "update"):
        text = anyflash(command, "--help").out
        assert "change nothing; only list" in text or "build nothing; list" in text


def test_help_lists_offline_only_where_a_network_is_used(anyflash):
    for command in ("plan", "install", "update"):
        assert "\nNetwork:\n" in anyflash(command, "--help").out
    for command in ("bench", "version"):
        assert "--offline" not in anyflash(command, "--help").out
        assert anyflash(command, "--offline", "--help").code == 0


def test_help_has_no_stray_backslash(anyflash):
    for command in COMMANDS:
        assert "\\" not in anyflash(command, "--help").out.replace("\\\n", "\n")


def test_help_lists_every_command(anyflash):
    answer = anyflash("help")
    assert answer.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in answer.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_80_columns(anyflash, command):
    answer = anyflash(command, "--help")
    assert answer.code == 0 and answer.out.startswith(f"usage: anyflash {command}")
    assert max(len(line) for line in answer.out.splitlines()) < 80
    assert answer.out == anyflash("help", command).out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_help_runs_as_it_stands(anyflash, tmp_path, command):
    """In a folder with the files that it names, where there is neither Python nor a network."""
    line, = anyflash("help", command).out.partition("\nExample:\n  ")[2].splitlines()
    assert line.startswith(f"anyflash {command}")
    for name in ("build.log", "requirements.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "anyflash").symlink_to(anyflash.program)
    done = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True,
                          env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, timeout=120)
    assert done.returncode in (0, 1, 3), done
    assert "usage" not in done.stderr and "unknown" not in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["shim", "providers"])
def test_commands_of_the_python_package_say_how_to_get_it(anyflash, command):
    answer = anyflash(command, "--python", "/usr")
    assert answer.code == 3
    assert f"'{command}' is a command of anyflash's Python package" in answer.err
    assert "which is not in '/usr'" in answer.err
    assert "`anyflash package install --python /usr`" in answer.err


@pytest.mark.parametrize("words", [("shim", "install"), ("providers",)])
def test_a_program_without_the_package_does_not_offer_to_install_it(anyflash, tmp_path, words):
    lone = tmp_path / "lone" / "anyflash"
    lone.parent.mkdir()
    shutil.copy(anyflash.program, lone)
    done = subprocess.run([lone, *words, "--python", "/usr"], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout=60)
    hint = " ".join(done.stderr.partition("hint: ")[2].split())
    assert done.returncode == 3 and "package install" not in hint
    assert "Python wheel" in hint and "`make install`" in hint and "not beside" in hint


def test_without_a_python_a_command_of_the_package_says_how_to_make_one(anyflash, tmp_path):
    answer = anyflash("providers", env={"PATH": str(tmp_path)})
    assert answer.code == 3 and "no Python environment was found" in answer.err
    assert "package install" not in answer.err and "name one with --python" in answer.err


def test_overview_fits_80_columns(anyflash):
    assert max(len(line) for line in anyflash("help").out.splitlines()) < 80


@pytest.mark.parametrize("words, error, hint", [
    (["pln"], "unknown command 'pln'", "`anyflash plan`"),
    (["xyzzy"], "unknown command 'xyzzy'", "`anyflash help`"),
    (["plan", "--jsn"], "unknown option '--jsn'", "'--json'"),
    (["--jsn=3", "plan"], "unknown option '--jsn=3'", "'--json'"),
    (["plan", "-Z"], "unknown option '-Z'", "`anyflash help plan` lists its options"),
    (["-Z"], "unknown option '-Z'", "`anyflash help COMMAND`"),
    (["run", "-Z", "--", "pip"], "unknown option '-Z'", "`anyflash help run`"),
    (["run", "pip", "install", "-r", "x.txt"], "unknown option '-r'", "anyflash run -- pip"),
    (["run", "pip", "install", "--no-deps", "x"], "unknown option '--no-deps'",
     "anyflash run -- pip"),
    (["plan", "--machine"], "option '--machine' needs a value: FILE", None),
    (["plan", "-m"], "option '-m' needs a value: FILE", None),
    (["plan", "--json=yes"], "option '--json' takes no value", None),
    (["plan", "--ver"], "'--ver' is ambiguous", "'--version' or '--verbose'"),
    (["--version", "--nothing"], "unknown option '--nothing'", "help version"),
    (["find", "--prefer", "wheel"], "unknown option '--prefer' for 'find'", "help find"),
    (["version", "3"], "'version' takes no arguments", None),
    (["help", "plan", "find"], "'help' takes one command, but got 'find'", None),
    (["machine", "--tags", "--schema"], "--schema cannot be used with --tags", None),
    (["help", "nothing"], "unknown command 'nothing'", "`anyflash help`"),
    (["version", "--color=blue"], "auto, always or never", None),
])
def test_wrong_words_exit_2_and_say_which(anyflash, words, error, hint):
    answer = anyflash(*words)
    assert answer.code == 2 and answer.out == ""
    assert answer.err.startswith("error: ") and error in answer.err
    assert ("\nhint: " in answer.err) == (hint is not None)
    assert hint is None or hint in answer.err


def test_words_that_are_no_utf8_are_quoted(anyflash):
    answer = anyflash(b"pl\xff\x1b[31m")
    assert answer.code == 2
    assert r"\xFF" in answer.err.upper().replace("\\X", r"\x")
    assert "\x1b" not in answer.err


def test_a_full_disk_exits_3(anyflash):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: cannot write to standard output: ")


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(f"{PROGRAM} help | true", shell=True, capture_output=True)
    assert done.returncode == 0 and done.stderr == b""


def test_closed_standard_streams_make_no_noise():
    done = subprocess.run(f"{PROGRAM} help >&- <&-", shell=True, capture_output=True)
    assert done.stderr == b"" and done.returncode == 0


@pytest.mark.parametrize("words, code", [
    (["machine", "--machine", b"\xff\x1b[2J.json"], 3),
    (["machine", "--given", b"\xff\x1b[2J=1"], 2),
    (["machine", "--given", b"gpu=\xff\x1b[2J"], 0),
    (["machine", "--given", b"torch=\xff\x1b[2J"], 2),
    (["machine", "--python", b"/\xff\x1b[2J"], 3),
    (["find", b"\xff\x1b[2J"], 1),
    (["find", "--catalog", b"\xff\x1b[2J"], 3),
    (["plan", "--given", "os=linux", "--wheel", b"\xff\x1b[2J"], 3),
    (["plan", "--given", "os=linux", "--package", b"\xff\x1b[2J"], 2),
    (["plan", "--given", "os=linux", "--version", b"\xff\x1b[2J"], 2),
    (["help", b"\xff\x1b[2J"], 2),
    (["help", b"\xff\x1b[2J"], 2),
    ([b"--\xff\x1b[2J"], 2),
    ([b"-\xff"], 2),
])
def test_bytes_that_are_no_text_are_never_printed_raw(anyflash, words, code):
    answer = anyflash(*words)
    assert answer.code == code, answer
    assert "\x1b" not in answer.out + answer.err
    assert "\udcff" not in answer.out + answer.err


@pytest.mark.parametrize("word, hint", [
    ("search", "`anyflash find WORD...`"), ("list", "`anyflash find`"),
    ("explain", "`anyflash doctor --explain CAUSE`"), ("upgrade", "`anyflash update`"),
    ("remove", "did you mean `anyflash undo`?"),
])
def test_words_of_other_programs_lead_to_the_command(anyflash, word, hint):
    answer = anyflash(word)
    assert answer.code == 2 and hint in answer.err, answer
