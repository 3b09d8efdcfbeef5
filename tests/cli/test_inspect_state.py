"""What `anyflash inspect` stores about a wheel at an address: only that, and without a fuss."""
import os
import sys

import pytest
from test_inspect import module, needs_compiler, wheel, File, Server

pytestmark = needs_compiler
NAME = "demo-1.0-cp39-abi3-linux_x86_64.whl"


@pytest.fixture
def url(tmp_path):
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    with Server() as server:
        server.files[NAME] = File(path.read_bytes())
        yield server.url(NAME)


def inspect(anyflash, what, *words, state):
    return anyflash("inspect", str(what), "--allow-http", "--against", sys.executable, *words,
                    env={"ANYFLASH_STATE": str(state)})


def test_only_a_wheel_at_an_address_leaves_a_state(anyflash, tmp_path, url):
    state = tmp_path / "state"
    assert inspect(anyflash, tmp_path / NAME, state=state).code == 0
    assert inspect(anyflash, url, "--torch", "2.8", state=state).code in (0, 1)
    assert not state.exists()
    assert inspect(anyflash, url, state=state).code == 0
    assert os.listdir(state) == ["state.db"]


def test_a_state_that_cannot_be_used_is_told_only_when_asked(anyflash, url):
    quiet = inspect(anyflash, url, state="/dev/null/none")
    told = inspect(anyflash, url, "-v", state="/dev/null/none")
    assert (quiet.code, quiet.err) == (0, "")
    assert told.code == 0 and "/dev/null" in told.err


@pytest.mark.parametrize("content", [b"", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_state_is_passed_over_and_stays(anyflash, tmp_path, url, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / "state.db").write_bytes(content)
    for _ in range(2):
        answer = inspect(anyflash, url, state=state)
        assert (answer.code, answer.err) == (0, ""), answer
    assert os.listdir(state) == ["state.db"]
    assert not content or (state / "state.db").read_bytes() == content


def damage(path):
    """Changes bytes in the middle of every page of the file but the first."""
    content = bytearray(path.read_bytes())
    for at in range(4096, len(content), 4096):
        content[at + 100:at + 3900] = os.urandom(3800)
    path.write_bytes(content)


def test_damaged_pages_lose_proofs_at_most(anyflash, tmp_path, url):
    state = tmp_path / "state"
    first = inspect(anyflash, url, state=state)
    damage(state / "state.db")
    second = inspect(anyflash, url, state=state)
    assert (first.code, first.out) == (second.code, second.out)
