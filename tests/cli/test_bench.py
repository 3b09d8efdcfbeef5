"""`anyflash bench`: table and JSON of a few small cases; another library."""
import contextlib
import fcntl
import json
import os
import pty
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
    assert report["schema"] == "anyflash-bench/1"
    machine = report["machine"]
    assert machine["threads"] == 1 and machine["cores"] >= 1
    assert machine["cpu"] and machine["features"] and machine["compiler"]
    shapes = [line["shape"] for line in report["results"]]
    assert shapes == ["f32 H8 Sk128 D64", "f32 H8 Sk1 D64"]
    for line in report["results"]:
        assert line["operation"] == "call" and line["unit"] == "GB/s" and line["samples"] >= 3
        assert 0 < line["minimum_ms"] <= line["median_ms"]
        assert line["rate"] > 0 and line["roof_rate"] > 0 and line["roof_part"] > 0
        assert 0 <= line["overhead_us"] < line["median_ms"] * 1000
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


def test_bench_takes_turns_with_others():
    """--turns: each order is answered by one line; a case without a turn is timed as usual."""
    words = [PROGRAM.parent / "anyflash-bench", "--turns", *TINY]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as child:
        def ask(order):
            child.stdin.write(order + "\n")
            return json.loads(child.stdout.readline())

        assert json.loads(child.stdout.readline())["machine"]["cores"] >= 1
        first = ask("next")
        assert (first["shape"], first["left"]) == ("f32 H8 Sk128 D64", 2)
        assert [len(numbers) for numbers in first["results"]] == [256]
        times = [ask("turn")["milliseconds"] for _ in range(5)]
        assert ask("next")["left"] == 1
        one, other = ask("next")["report"]["results"]
    assert child.returncode == 0
    assert one["samples"] == 5 and one["minimum_ms"] == pytest.approx(min(times))
    assert other["samples"] >= 3
