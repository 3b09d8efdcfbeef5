"""When memory runs out, a command says so and ends with 3; it prints no half answer."""
import os
import resource
from pathlib import Path

import pytest

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
pytestmark = pytest.mark.skipif(b"__asan_init" in Path(PROGRAM).read_bytes(),
                                reason="AddressSanitizer reserves all addresses for itself")
ROOT = Path(__file__).resolve().parents[2]
MACHINE = str(ROOT / "examples/machines/rtx4090-torch2.8.json")
LIBRARY = str(next(Path("/lib").glob("*-linux-gnu/libsqlite3.so.0")))
STEP = 1.08
COMMANDS = [
    ["plan", "--machine", MACHINE],
    ["plan", "--machine", MACHINE, "--json", "--all"],
    ["plan", "--given", "torch=2.8.0+cu128", "--given", "python=3.12"],
    ["doctor", "--machine", MACHINE],
    ["doctor", "log.txt"],
    ["doctor", "log.txt", "--json"],
    ["machine", "--machine", MACHINE, "--tags"],
    ["inspect", LIBRARY, "--machine", MACHINE],
    ["find", "torch=2.9", "python=3.12"],
    ["config", "pip", "--machine", MACHINE],
    ["check", "."],
]


def limited(bytes_max):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))


@pytest.fixture
def least(anyflash):
    """The least memory with which the loader starts the program."""
    bytes_max = 4 << 20
    while anyflash("help", preexec_fn=limited(bytes_max)).code != 0:
        bytes_max += 256 << 10
    return bytes_max


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:40])
def test_out_of_memory_is_told(anyflash, least, tmp_path, words):
    (tmp_path / "log.txt").write_text("ImportError: /x/flash_attn_2_cuda.so: undefined symbol: "
                                      "_ZN3c105ErrorD1Ev\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n'
                                             'dependencies = ["torch", "flash-attn"]\n')
    whole = anyflash(*words)
    assert whole.code in (0, 1), whole
    bytes_max, told = least, 0
    while True:
        answer = anyflash(*words, preexec_fn=limited(bytes_max))
        if answer.out == whole.out and answer.code == whole.code:
            break
        assert (answer.code, answer.out) == (3, ""), answer
        assert answer.err == "error: out of memory\n"
        told += 1
        bytes_max = int(bytes_max * STEP)
    assert told > 0 or words[0] != "plan"  # others need no more than the loader
