"""`anyflash providers` and `anyflash shim` as commands: help, wrong arguments, pipes,
Ctrl-C."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from anyflash import _command

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}


def _hears_ctrl_c():
    """SIGINT may be ignored if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*words, code=None, **options):
    command = ["-c", code] if code else ["-m", "anyflash", *words]
    return subprocess.Popen(
        [sys.executable, *command],
        env=ENVIRONMENT, text=True, preexec_fn=_hears_ctrl_c,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def run(*words, **options):
    """(exit code, stdout, stderr)."""
    process = start(*words, **options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("command", ("providers", "shim"))
def test_each_way_to_ask_prints_the_commands_own_help(command):
    answers = {run(*words) for words in ((command, "-h"), (command, "--help"),
                                         ("help", command), (command, "x", "--help"))}
    ((code, out, err),) = answers
    assert code == 0 and not err and out.startswith(f"usage: anyflash {command} ")
    assert "Exit code: 0" in out and "--json" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    "words, message, hint",
    [
        (["providers", "--jsn"], "unknown option '--jsn'", "did you mean '--json'?"),
        (["providers", "--json=1"], "option '--json' takes no value", "write '--json'"),
        (["providers", "\x1b[1m"], "takes no arguments, but got '\\x1b[1m'", "--help"),
        (["shim", "-z", "status"], "unknown option '-z'", "--help lists the options"),
        (["shim", "--python"], "option '--python' needs a value", "write '--python PATH'"),
        (["shim"], "missing action of `anyflash shim`", "install, remove or status"),
        (["shim", "remove", "it"], "unknown action 'remove it'", "install, remove or status"),
    ],
)
def test_wrong_words_are_an_error_with_a_hint_and_exit_code_2(words, message, hint):
    code, out, err = run(*words)
    first, second = err.splitlines()
    assert code == 2 and not out
    assert first.startswith("error: ") and message in first
    assert second.startswith("hint: ") and hint in second


def test_the_table_fits_80_columns_and_is_the_same_as_json():
    code, out, err = run("providers")
    assert code == 0 and max(map(len, out.splitlines())) <= 80, err
    code, text, _ = run("providers", "--json")
    answer = json.loads(text)
    assert code == 0 and answer["schema"] == "anyflash-providers/1"
    names = [row["name"] for row in answer["providers"]]
    from anyflash.providers import PROVIDERS

    assert names == [name for name, _ in PROVIDERS]
    for row in answer["providers"]:
        assert f"  {'yes' if row['works'] else 'no ':3}  {row['name']:15}  " in out
        assert "".join(row["text"].split()) in "".join(out.split())


def test_the_answer_in_json_satisfies_its_schema(check_schema):
    check_schema(run("providers", "--json")[1])


def test_a_reader_that_closes_the_pipe_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)
    code, _, err = run("providers", stdout=write)
    os.close(write)
    assert code == -signal.SIGPIPE and not err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_exit_code_3_with_its_cause():
    with open("/dev/full", "w") as full:
        code, _, err = run("providers", stdout=full)
    assert code == 3
    assert err == "error: cannot write to standard output: No space left on device\n"


def test_ctrl_c_ends_it_with_130_and_no_traceback():
    code = (
        "import sys, time\nfrom anyflash import _command\n"
        "def main(words):\n    print('begun', flush=True)\n    time.sleep(100)\n"
        "sys.exit(_command.run(main, []))"
    )
    process = start(code=code)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and not err


def test_a_value_may_follow_a_short_option_or_an_equals_sign():
    options = {"--python": "PATH", "-p": "--python", "--json": None}
    for words in (["-p", "x", "a"], ["--python=x", "a"], ["a", "-p=x"]):
        assert _command.parse(words, options) == ({"--python": "x"}, ["a"])
    assert _command.parse(["--json", "-"], options) == ({"--json": True}, ["-"])


def test_long_text_goes_on_below_itself():
    lines = _command.wrapped("  yes  name  ", "word " * 30).splitlines()
    assert len(lines) > 1 and all(len(line) <= 80 for line in lines)
    assert all(line.startswith(" " * 13 + "word") for line in lines[1:])
