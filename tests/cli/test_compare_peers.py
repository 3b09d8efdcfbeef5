"""bench/compare_peers.py: the engine and stand-ins for other libraries, by turns."""
import argparse
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = pathlib.Path(os.environ.get("ANYFLASH", "/dev/null")).parent / "anyflash-bench"
COMMAND = [sys.executable, "-B", ROOT / "bench/compare_peers.py", "--bench", BENCH]
TINY = ["--quick", "--filter", "call"]
PEERS = ("torch", "flex", "zentorch", "vllm", "onnxruntime", "openvino", "autoround", "onednn",
         "openblas")


def compare(*words):
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300)
    return argparse.Namespace(code=done.returncode, out=done.stdout, err=done.stderr)


def test_says_which_peers_are_not_there():
    answer = compare("--peers", "/usr/bin/python3", *TINY)
    assert answer.code == 1 and "no library to compare with" in answer.err
    for peer in PEERS:
        line, = (x for x in answer.out.splitlines() if f" {peer} not installed" in x)
        assert "`pip install " in line
    assert "best" not in answer.out


def test_refuses_an_interpreter_that_does_not_run():
    answer = compare("--peers", "no-such-python", *TINY)
    assert answer.code == 1 and "no-such-python" in answer.err


def fake_python(tmp_path, first, then="", name="python"):
    """A stand-in interpreter that runs shell commands: `first` for a case, `then` for a turn;
    `say TEXT` answers. Its arguments are -B, the script, the library, the threads."""
    path = tmp_path / name
    path.write_text(f"""#!/bin/sh
say() {{ printf '%s\\n' "$1"; }}
while read -r line; do
    case $line in
    '{{}}') say '{{"version": "1.0"}}' ;;
    '"turn"') {then or "say '{}'"} ;;
    *) {first} ;;
    esac
done
""")
    path.chmod(0o755)
    return str(path)


def results(number):
    """An answer to a case whose results are all `number`."""
    return "say '" + json.dumps({"results": [[number] * 256], "dtype": "f32"}) + "'"


@pytest.mark.parametrize("first, decline", [
    ("kill -9 $$", "signal 9"),
    ("exit 7", "exit code 7"),
    ("say '{'", "cannot be read"),
    ("say '{}'", "cannot be read"),
    ("say '{\"results\": [[1, 2]]}'", "cannot be read"),
    ("say '{\"decline\": \"has no \\u001b[31mred\"}'", r"has no \x1B[31mred"),
])
def test_outlives_a_peer_that_fails(tmp_path, first, decline):
    report = json.loads(compare("--json", "--peers", fake_python(tmp_path, first),
                                 *TINY).out)
    assert [peer["version"] for peer in report["peers"]] == ["1.0"] * len(PEERS)
    assert len(report["results"]) == 2  # it is started again for the second case
    for line in report["results"]:
        for peer in line["peers"]:
            assert decline.lower() in peer["decline"].lower()


@pytest.mark.parametrize("then, decline", [
    ("exit 7", "ended with exit code 7"),
    ("say '{\"milliseconds\": \"soon\"}'", "its answer cannot be read"),
    ("say '{\"decline\": \"out of memory\"}'", "out of memory"),
])
def test_drops_a_peer_that_fails_in_a_later_turn(tmp_path, then, decline):
    python = fake_python(tmp_path, results(0), f"""
        turns=$((turns + 1))
        if [ $turns = 1 ]; then say '{{"milliseconds": 1}}'; else {then}; fi""")
    report = json.loads(compare("--json", "--peers", python, *TINY).out)
    for line in report["results"]:
        for peer in line["peers"]:
            assert peer["decline"] == decline


def test_measures_by_turns(tmp_path):
    """Every library has as many samples as the engine, and none runs in another's turn."""
    log = tmp_path / "log"
    python = fake_python(tmp_path, results(0),
                         f"""echo "$3" >> {log}; say '{{"milliseconds": 1}}'""")
    answer = compare("--json", "--peers", python, "--quick", "--filter", "call Sk1")
    line, = json.loads(answer.out)["results"]
    rounds = line["samples"]
    assert rounds >= 3 and [peer["samples"] for peer in line["peers"]] == [rounds] * len(PEERS)
    assert log.read_text().split() == list(PEERS) * rounds


def test_stops_a_peer_that_waits(tmp_path):
    """A peer that would go on computing after its answer gets no processor time."""
    log = tmp_path / "log"
    python = fake_python(
        tmp_path, results(0), f"""
        say '{{"milliseconds": 1}}'
        sleep 0.1
        for i in 1 2 3 4 5 6 7 8 9; do echo "$3" >> {log}; sleep 0.01; done""")
    assert compare("--peers", python, "--quick", "--filter", "call Sk1").code == 0
    seen = log.read_text().split() if log.exists() else []
    # Only a peer that is asked again goes on with the rest of its last turn.
    assert all(len(list(group)) >= 9 for _, group in itertools.groupby(seen))


def test_takes_each_library_from_the_first_interpreter_that_has_it(tmp_path):
    has_vllm = fake_python(tmp_path, results(0), "say '{\"milliseconds\": 1}'", "first")
    text = pathlib.Path(has_vllm).read_text()
    text = text.replace("#!/bin/sh\n", "#!/bin/sh\n[ $3 = vllm ] || exit 1\n")
    pathlib.Path(has_vllm).write_text(text)
    others = fake_python(tmp_path, "exit 1", name="second")
    answer = compare("--json", "--peers", has_vllm, "--peers", others, *TINY)
    for line in json.loads(answer.out)["results"]:
        assert [peer["name"] for peer in line["peers"] if "decline" not in peer] == ["vllm"]


def test_says_that_results_differ(tmp_path):
    python = fake_python(tmp_path, results(1000), "say '{\"milliseconds\": 1}'")
    answer = compare("--peers", python, *TINY)
    assert answer.code == 0 and "    !=    !=" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert not any(line.endswith(" ") for line in answer.out.splitlines())


def test_shows_the_best_of_the_peers(tmp_path):
    python = fake_python(tmp_path, "say '{\"decline\": \"has no such case\"}'")
    answer = compare("--peers", python, *TINY)
    heading = [line for line in answer.out.splitlines() if line.endswith(" best")]
    short = {"onnxruntime": "onnxrt", "zentorch": "zen", "autoround": "ark"}
    shown = [short.get(name, name) for name in PEERS]
    assert len(heading) == 1 and heading[0].split()[1:-1] == shown
    assert answer.out.count("     -\n") == 2


def test_prints_each_row_when_it_is_ready(tmp_path):
    """The first row arrives while the second case is still being timed."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    python = fake_python(tmp_path, f"""
        cases=$((cases + 1))
        if [ $cases = 2 ] && [ $3 = torch ]; then read -r go < {gate}; fi
        {results(0)}""", "say '{\"milliseconds\": 1}'")
    words = [*COMMAND, "--peers", python, *TINY]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while not child.stdout.readline().startswith(b"  f32 H8 Sk128 D64 "):
            pass
        gate.write_text("go\n")
        rest, errors = child.communicate(timeout=120)
    assert b"  f32 H8 Sk1 D64 " in rest and errors == b""


def restore_interrupt():
    """A shell that starts the tests in the background ignores Ctrl-C for them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_it_ends_quietly_when_its_reader_has_gone(tmp_path):
    python = fake_python(tmp_path, results(0), "say '{\"milliseconds\": 1}'")
    with subprocess.Popen([*COMMAND, "--peers", python, *TINY], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


def test_nothing_is_left_when_it_is_stopped(tmp_path):
    """SIGTERM and Ctrl-C: the stopped libraries and the engine end, too."""
    pids = tmp_path / "pids"
    turn = f"""echo $$ >> {pids}; say '{{"milliseconds": 1}}'"""
    python = fake_python(tmp_path, results(0), turn)
    for number in (signal.SIGTERM, signal.SIGINT):
        pids.unlink(missing_ok=True)
        with subprocess.Popen([*COMMAND, "--peers", python, "--filter", "call"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=restore_interrupt) as child:
            while not pids.exists():
                time.sleep(0.05)
            child.send_signal(number)
            errors = child.communicate(timeout=60)[1]
        assert child.returncode == (130 if number == signal.SIGINT else 1) and errors == b""
        for pid in set(pids.read_text().split()):
            assert not pathlib.Path("/proc", pid).exists()


def test_no_case_and_no_program(tmp_path):
    answer = compare("--peers", "/usr/bin/python3", "--filter", "S51")
    assert answer.code == 2 and "no shape matches --filter" in answer.err
    answer = compare("--peers", "/usr/bin/python3", "--bench", str(tmp_path / "none"))
    assert answer.code == 1 and re.search("cannot start .*none", answer.err)
