"""`anyflash bench`: table and JSON of a few small cases; peers; another library."""
import contextlib
import fcntl
import itertools
import json
import os
import pty
import resource
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

TINY = ["--quick", "--filter", "call"]
PROGRAM = Path(os.environ.get("ANYFLASH", "/dev/null"))
#: For shapes that take minutes under sanitizers; tests/kernels runs small ones there.
large = pytest.mark.skipif(b"__asan_init" in PROGRAM.read_bytes(),
                           reason="takes minutes with sanitizers")
PEERS = ("torch", "flex", "zentorch", "vllm", "onnxruntime", "openvino", "autoround", "onednn",
         "openblas")


def test_bench_fits_96_columns_and_names_machine_and_compiler(anyflash):
    answer = anyflash("bench", "--quick", "--filter", "forward S512")
    assert answer.code == 0, answer
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert answer.out.startswith("machine ") and "\nbuilt by " in answer.out
    assert "\n  f32 H16 S512 D64 " in answer.out and "\n  bf16 H16 S512 D64 " in answer.out
    assert answer.err == ""


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("shapes", ["forward S512", "call",
                                    pytest.param("serving", marks=large)])
def test_bench_is_as_wide_as_the_terminal(anyflash, shapes, columns):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    bench = subprocess.Popen([anyflash.program, "bench", "--quick", "--filter", shapes],
                             stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux reports that the other end was closed
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    lines = shown.decode().splitlines()
    assert bench.wait(60) == 0
    wide = [line for line in lines if len(line) > columns]
    assert lines[0].startswith("machine ") and not wide, wide
    assert ("kernel" in "\n".join(lines)) == (columns == 100)
    legend = lines[max(i for i, line in enumerate(lines) if not line):]
    assert len(legend) <= 10, legend


def test_bench_json_has_every_figure(anyflash):
    answer = anyflash("bench", "--json", "--threads", "1", *TINY)
    report = json.loads(answer.out)
    assert report["schema"] == "anyflash-bench/1" and report["peers"] == []
    machine = report["machine"]
    assert machine["threads"] == 1 and machine["cores"] >= 1
    assert machine["cpu"] and machine["features"] and machine["compiler"]
    shapes = [line["shape"] for line in report["results"]]
    assert shapes == ["f32 H8 Sk128 D64", "f32 H8 Sk1 D64"]
    for line in report["results"]:
        assert line["operation"] == "call" and line["unit"] == "GB/s" and line["samples"] >= 3
        assert 0 < line["minimum_ms"] <= line["median_ms"]
        assert line["rate"] > 0 and line["roof_rate"] > 0 and line["roof_part"] > 0
        assert line["peers"] == [] and 0 <= line["overhead_us"] < line["median_ms"] * 1000
        assert line["kernel"].startswith("af_dec_f32__") and line["level"] == "all"


def test_bench_never_passes_the_roof_of_arithmetic(anyflash):
    answer = anyflash("bench", "--json", "--quick", "--filter", "forward f32 S512")
    line, = json.loads(answer.out)["results"]
    assert line["unit"] == "GFLOP/s" and 0 < line["roof_part"] < 1.1


@large
def test_bench_names_the_kernel_of_each_operation(anyflash):
    answer = anyflash("bench", "--json", "--quick", "--filter", "f32 S2048")
    kernels = {line["operation"]: line["kernel"] for line in json.loads(answer.out)["results"]}
    assert kernels["forward"].startswith("af_fwd_f32__")
    assert kernels["backward"].startswith("af_bwd_f32__")
    tile = kernels["forward"].split("__")[1]
    answer = anyflash("bench", "--quick", "--filter", "forward f32 S2048")
    assert f"  {tile}\n" in answer.out


@large
def test_bench_keeps_to_a_lower_level_beside_its_roof(anyflash):
    answer = anyflash("bench", "--json", "--filter", "forward avx2 D64 causal")
    if answer.code == 2:
        pytest.skip("needs a processor with AVX2")
    line, = json.loads(answer.out)["results"]
    assert line["level"] == "avx2" and "__avx2_" in line["kernel"]
    assert 0 < line["roof_part"] < 1.1


def test_bench_filter_takes_whole_words(anyflash):
    answer = anyflash("bench", "--filter", "S51")
    assert answer.code == 2 and "no shape matches --filter" in answer.err


def test_bench_says_which_peers_are_not_there(anyflash):
    answer = anyflash("bench", "--peers", "/usr/bin/python3", *TINY)
    assert answer.code == 0
    for peer in PEERS:
        line, = (x for x in answer.out.splitlines() if f" {peer} not installed" in x)
        assert "`pip install " in line
    assert "best" not in answer.out


def test_bench_refuses_an_interpreter_that_does_not_run(anyflash):
    answer = anyflash("bench", "--peers", "no-such-python", *TINY)
    assert answer.code == 3 and "no-such-python" in answer.err


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
    ("say '{'", "expected near end"),
    ("say '{}'", "cannot be read"),
    ("say '{\"results\": [[1, 2]]}'", "cannot be read"),
    ("say '{\"decline\": \"has no \\u001b[31mred\"}'", r"has no \x1B[31mred"),
])
def test_bench_outlives_a_peer_that_fails(anyflash, tmp_path, first, decline):
    report = json.loads(anyflash("bench", "--json", "--peers", fake_python(tmp_path, first),
                                 *TINY).out)
    assert [peer["version"] for peer in report["peers"]] == ["1.0"] * len(PEERS)
    assert len(report["results"]) == 2  # it is started again for the second case
    for line in report["results"]:
        for peer in line["peers"]:
            assert decline.lower() in peer["decline"].lower()


@pytest.mark.parametrize("then, decline", [
    ("exit 7", "exit code 7"),
    ("say '{\"milliseconds\": \"soon\"}'", "its answer cannot be read"),
    ("say '{\"decline\": \"out of memory\"}'", "out of memory"),
])
def test_bench_drops_a_peer_that_fails_in_a_later_turn(anyflash, tmp_path, then, decline):
    python = fake_python(tmp_path, results(0), f"""
        turns=$((turns + 1))
        if [ $turns = 1 ]; then say '{{"milliseconds": 1}}'; else {then}; fi""")
    report = json.loads(anyflash("bench", "--json", "--peers", python, *TINY).out)
    for line in report["results"]:
        for peer in line["peers"]:
            assert peer["decline"] == decline


def test_bench_measures_by_turns(anyflash, tmp_path):
    """Every library has as many samples as the engine, and none runs in another's turn."""
    log = tmp_path / "log"
    python = fake_python(tmp_path, results(0),
                         f"""echo "$3" >> {log}; say '{{"milliseconds": 1}}'""")
    answer = anyflash("bench", "--json", "--peers", python, "--quick", "--filter", "call Sk1")
    line, = json.loads(answer.out)["results"]
    rounds = line["samples"]
    assert rounds >= 3 and [peer["samples"] for peer in line["peers"]] == [rounds] * len(PEERS)
    assert log.read_text().split() == list(PEERS) * rounds


def test_bench_stops_a_peer_that_waits(anyflash, tmp_path):
    """A peer that would go on computing after its answer gets no processor time."""
    log = tmp_path / "log"
    python = fake_python(
        tmp_path, results(0), f"""
        say '{{"milliseconds": 1}}'
        sleep 0.1
        for i in 1 2 3 4 5 6 7 8 9; do echo "$3" >> {log}; sleep 0.01; done""")
    assert anyflash("bench", "--peers", python, "--quick", "--filter", "call Sk1").code == 0
    seen = log.read_text().split() if log.exists() else []
    # Only a peer that is asked again goes on with the rest of its last turn.
    assert all(len(list(group)) >= 9 for _, group in itertools.groupby(seen))


def test_bench_takes_each_library_from_the_first_interpreter_that_has_it(anyflash, tmp_path):
    has_vllm = fake_python(tmp_path, results(0), "say '{\"milliseconds\": 1}'", "first")
    text = Path(has_vllm).read_text()
    text = text.replace("#!/bin/sh\n", "#!/bin/sh\n[ $3 = vllm ] || exit 1\n")
    Path(has_vllm).write_text(text)
    others = fake_python(tmp_path, "exit 1", name="second")
    answer = anyflash("bench", "--json", "--peers", has_vllm, "--peers", others, *TINY)
    for line in json.loads(answer.out)["results"]:
        assert [peer["name"] for peer in line["peers"] if "decline" not in peer] == ["vllm"]


def test_bench_says_that_results_differ(anyflash, tmp_path):
    python = fake_python(tmp_path, results(1000), "say '{\"milliseconds\": 1}'")
    answer = anyflash("bench", "--peers", python, *TINY)
    assert answer.code == 0 and "    !=    !=" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert not any(line.endswith(" ") for line in answer.out.splitlines())


def test_bench_shows_the_best_of_the_peers(anyflash, tmp_path):
    python = fake_python(tmp_path, "say '{\"decline\": \"has no such case\"}'")
    answer = anyflash("bench", "--peers", python, *TINY)
    heading = [line for line in answer.out.splitlines() if line.endswith(" best")]
    short = {"onnxruntime": "onnxrt", "zentorch": "zen", "autoround": "ark"}
    shown = [short.get(name, name) for name in PEERS]
    assert len(heading) == 1 and heading[0].split()[1:-1] == shown
    assert answer.out.count("     -\n") == 2


def test_bench_prints_each_row_when_it_is_ready(tmp_path):
    """The first row arrives while the second case is still being timed."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    python = fake_python(tmp_path, f"""
        cases=$((cases + 1))
        if [ $cases = 2 ] && [ $3 = torch ]; then read -r go < {gate}; fi
        {results(0)}""", "say '{\"milliseconds\": 1}'")
    words = [PROGRAM, "bench", "--peers", python, *TINY]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while not child.stdout.readline().startswith(b"  f32 H8 Sk128 D64 "):
            pass
        gate.write_text("go\n")
        rest, errors = child.communicate(timeout=120)
    assert b"  f32 H8 Sk1 D64 " in rest and errors == b""


def read_terminal(terminal):
    """The parts of what was written to it; EIO says that there are no more."""
    with contextlib.suppress(OSError):
        while True:
            yield os.read(terminal, 4096).decode()


def test_bench_shows_progress_on_a_terminal_only(tmp_path):
    ours, theirs = pty.openpty()
    answer = subprocess.run([PROGRAM, "bench", *TINY], stdout=subprocess.PIPE, stderr=theirs,
                            check=True)
    os.close(theirs)
    shown = "".join(read_terminal(ours))
    os.close(ours)
    assert "\r2 of 2: call f32 H8 Sk1 D64 " in shown
    assert shown.endswith("\r" + " " * 70 + "\r") and b" of 2: " not in answer.stdout


def test_bench_takes_no_file_of_the_folder_for_a_library(anyflash, tmp_path):
    (tmp_path / "numpy.py").write_text("__version__ = '0'\nraise SystemExit(5)\n")
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")
    answer = anyflash("bench", "--peers", "/usr/bin/python3", *TINY)
    assert " torch not installed" in answer.out


@large
def test_bench_times_steps_of_a_server(anyflash):
    answer = anyflash("bench", "--quick", "--filter", "serving")
    assert max(len(line) for line in answer.out.splitlines()) <= 96
    assert "\n  bf16 B16 H32:8 Sk32k-128 D128 p16 " in answer.out
    answer = anyflash("bench", "--json", "--quick", "--filter", "serving")
    line, = json.loads(answer.out)["results"]
    assert line["operation"] == "serving" and line["unit"] == "GB/s"
    assert (line["batch"], line["page_size"], line["value_dim"]) == (16, 16, 128)
    assert line["kernel"].startswith("af_dec_bf16__")


#: What --compare needs of a library; it computes nothing, and so fast that its ratio is tiny.
FUNCTIONS = """
int anyflash_attend(void) { return 0; }
int anyflash_attend_backward(void) { return 0; }
int anyflash_context_new(void) { return 0; }
void anyflash_context_free(void) {}
"""


def compare(anyflash, library, *options):
    words = ["--quick", "--filter", "call Sk128", "--compare", library]
    return anyflash("bench", *words, *options)


def test_bench_compares_with_another_build(anyflash):
    answer = compare(anyflash, str(PROGRAM.parent / "libanyflash.so"))
    assert answer.code == 0 and "\ncompared   " in answer.out, answer
    assert "ratio  quartiles" in answer.out and "  same bits\n" in answer.out
    assert max(len(line) for line in answer.out.splitlines() if " bits" in line) <= 96


def test_bench_says_if_another_build_computes_something_else(anyflash, tmp_path):
    library, source = tmp_path / "other.so", tmp_path / "other.c"
    source.write_text(FUNCTIONS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    report = json.loads(compare(anyflash, str(library), "--json").out)
    line, = report["results"]
    assert report["compared"] == str(library)
    assert line["compared"]["ratio"] < 0.5 and line["compared"]["same_bits"] is False


@pytest.mark.parametrize("text, says", [
    (None, "cannot load the library: "),
    ("no library", "cannot load the library: "),
    (FUNCTIONS.replace("_backward", "_forward"), "does not export anyflash_attend_backward"),
])
def test_bench_refuses_what_is_no_build(anyflash, tmp_path, text, says):
    library = tmp_path / "other.so"
    if text is not None and "anyflash" in text:
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], check=True,
                       input=text, text=True)
    elif text is not None:
        library.write_text(text)
    answer = compare(anyflash, str(library))
    assert answer.code == 3 and says in answer.err and str(library) in answer.err, answer
    assert answer.out == ""


def test_bench_compares_with_peers_or_another_build(anyflash):
    answer = compare(anyflash, "a", "--peers", "b")
    assert answer.code == 2 and "--peers and --compare exclude each other" in answer.err


@large
def test_bench_textbook_has_a_row_for_each_length(anyflash):
    answer = anyflash("bench", "--textbook", "--quick")
    assert answer.code == 0 and answer.err == "", answer
    assert max(map(len, answer.out.splitlines())) <= 96
    table = answer.out[answer.out.index("difference\n"):].splitlines()[1:4]
    rows = [[float(word) for word in line.split()] for line in table]
    assert [row[0] for row in rows] == [512, 1024, 2048]
    for length, engine, textbook, ratio, least, most, difference in rows:
        assert engine > 0 and textbook > 0 and ratio > 0 and difference < 1e-5
        tensors, scores = (8 * 4 * length * x / (1 << 20) for x in (4 * 64, length))
        assert tensors <= least < tensors + 8 and scores + tensors <= most


def limit_memory(kib):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10))


@large
def test_bench_textbook_says_what_does_not_fit(anyflash):
    words = ["bench", "--textbook", "--quick", "--json", "--threads", "1"]
    answer = anyflash(*words, preexec_fn=limit_memory(120000))
    assert answer.code == 0, answer
    line = json.loads(answer.out)["results"][-1]
    assert line["length"] == 2048 and line["engine"]["samples"] > 0 and line["ratio"] is None
    assert line["textbook"] == {"decline": "does not fit: the system refuses the memory"}


def test_bench_textbook_times_no_other_shapes_or_libraries(anyflash):
    for words in (["--filter", "call"], ["--peers", "python3"], ["--compare", "a"]):
        answer = anyflash("bench", "--textbook", *words)
        assert answer.code == 2 and "--textbook excludes --filter" in answer.err, answer


def test_bench_textbook_can_be_interrupted():
    """Rows that were printed before stay."""
    words = [PROGRAM, "bench", "--textbook", "--threads", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while not child.stdout.readline().startswith(b"     512 "):
            pass
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
