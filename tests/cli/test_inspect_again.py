"""A second `anyflash inspect`: facts come from the state file, and nothing is read again."""
import json
import os
import shutil
import sys
import time

import pytest
from test_inspect import build, module, needs_compiler, wheel, File, Server

pytestmark = needs_compiler
NAME = "demo-1.0-cp39-abi3-linux_x86_64.whl"
SETTLE = 0.2  # seconds until a change shows in the times of a file


def inspect(anyflash, path, *words, **env):
    """The JSON answer without the number of downloaded bytes."""
    answer = anyflash("inspect", str(path), "--json", "--against", sys.executable, *words,
                      env=env)
    assert answer.code in (0, 1), answer
    said = json.loads(answer.out)
    return said, (said["wheel"] or {}).pop("bytes_read", None)


def nowhere_to_unpack(tmp_path):
    return {"TMPDIR": str(tmp_path / "not" / "there")}


def test_a_wheel_is_unpacked_once(anyflash, tmp_path):
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    time.sleep(SETTLE)
    first, _ = inspect(anyflash, path)
    second, _ = inspect(anyflash, path, **nowhere_to_unpack(tmp_path))
    assert first == second


def test_without_a_state_everything_is_read_again(anyflash, tmp_path):
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    time.sleep(SETTLE)
    first, _ = inspect(anyflash, path)
    second, _ = inspect(anyflash, path, ANYFLASH_STATE="/dev/null/none")
    assert first == second
    answer = anyflash("inspect", str(path), "--against", sys.executable,
                      env={"ANYFLASH_STATE": "/dev/null/none", **nowhere_to_unpack(tmp_path)})
    assert answer.code == 3 and "cannot create a temporary folder" in answer.err


def test_a_state_that_cannot_be_used_is_told_only_when_asked(anyflash, tmp_path):
    path = module(tmp_path)
    words = ("inspect", str(path), "--against", sys.executable)
    quiet = anyflash(*words, env={"ANYFLASH_STATE": "/dev/null/none"})
    told = anyflash(*words, "-v", env={"ANYFLASH_STATE": "/dev/null/none"})
    assert (quiet.code, quiet.err) == (0, "")
    assert told.code == 0 and "/dev/null" in told.err


@pytest.mark.parametrize("content", [b"", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_state_is_passed_over_and_stays(anyflash, tmp_path, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / "state.db").write_bytes(content)
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    time.sleep(SETTLE)
    for _ in range(2):
        answer = anyflash("inspect", str(path), "--against", sys.executable,
                          env={"ANYFLASH_STATE": str(state)})
        assert (answer.code, answer.err) == (0, ""), answer
    assert os.listdir(state) == ["state.db"]
    assert not content or (state / "state.db").read_bytes() == content


def damage(path):
    """Changes bytes in the middle of every page of the file but the first."""
    content = bytearray(path.read_bytes())
    for at in range(4096, len(content), 4096):
        content[at + 100:at + 3900] = os.urandom(3800)
    path.write_bytes(content)


def test_damaged_pages_lose_facts_at_most(anyflash, tmp_path):
    state = tmp_path / "state"
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    time.sleep(SETTLE)
    first, _ = inspect(anyflash, path, ANYFLASH_STATE=str(state))
    damage(state / "state.db")
    second, _ = inspect(anyflash, path, ANYFLASH_STATE=str(state))
    assert first == second


@pytest.mark.parametrize("packed", [False, True])
def test_another_file_of_the_same_size_and_time_is_read(anyflash, tmp_path, packed):
    good = module(tmp_path, wants=["PyLong_AsLong"]).read_bytes()
    bad = good.replace(b"PyLong_AsLong", b"PyLong_AsLung")
    assert good != bad and len(good) == len(bad)
    name = NAME if packed else "ext.abi3.so"
    path = tmp_path / "here" / name
    path.parent.mkdir()

    def write(content):
        if packed:
            wheel(path, {"ext.abi3.so": content}, compression=0)
        else:
            path.write_bytes(content)
        os.utime(path, (1, 1))
        time.sleep(SETTLE)

    write(good)
    size = path.stat().st_size
    said, _ = inspect(anyflash, path)
    assert said["verdict"] == "yes"
    write(bad)
    assert path.stat().st_size == size
    said, _ = inspect(anyflash, path)
    assert said["verdict"] == "no" and said["extensions"][0]["missing"] == ["PyLong_AsLung"]


def test_known_libraries_of_a_wheel_still_find_each_other(anyflash, tmp_path):
    (tmp_path / "demo.libs").mkdir()
    (tmp_path / "demo").mkdir()
    library = build(tmp_path / "demo.libs", "libown.so", "void own_function(void) {}\n")
    linked = build(tmp_path / "demo", "ext.abi3.so",
                   "extern void own_function(void);\n"
                   "void *PyInit_ext(void) { own_function(); return 0; }\n",
                   f"-L{tmp_path / 'demo.libs'}", "-lown", "-Wl,-rpath,$ORIGIN/../demo.libs")
    path = wheel(tmp_path / NAME, {"demo/ext.abi3.so": linked.read_bytes(),
                                   "demo.libs/libown.so": library.read_bytes(),
                                   "demo/sub/lone.abi3.so":
                                       module(tmp_path / "demo", "lone").read_bytes()})
    shutil.rmtree(tmp_path / "demo.libs")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    time.sleep(SETTLE)
    first, _ = inspect(anyflash, path, TMPDIR=str(temporary))
    second, _ = inspect(anyflash, path, TMPDIR=str(temporary))
    assert [row["verdict"] for row in second["extensions"]] == ["yes"] * 3, second
    assert first == second
    assert os.listdir(temporary) == []


def test_what_was_fetched_is_not_fetched_again(anyflash, tmp_path):
    content = module(tmp_path, padding=4 << 20).read_bytes() + os.urandom(3 << 20)
    path = wheel(tmp_path / NAME, {"ext.abi3.so": content})
    with Server() as server:
        server.files[NAME] = File(path.read_bytes())
        first, fetched = inspect(anyflash, server.url(NAME), "--allow-http")
        second, again = inspect(anyflash, server.url(NAME), "--allow-http")
        server.files[NAME] = File(path.read_bytes(), etag='"another"')
        _, anew = inspect(anyflash, server.url(NAME), "--allow-http")
    assert first["verdict"] == "yes" and first == second
    assert fetched > 3 << 20 and again < 1 << 18 and anew == fetched


def test_what_must_be_fetched_whole_is_unpacked_once(anyflash, tmp_path):
    path = wheel(tmp_path / NAME, {"ext.abi3.so": module(tmp_path).read_bytes()})
    with Server() as server:
        server.files[NAME] = File(path.read_bytes(), ranges=False)
        first, _ = inspect(anyflash, server.url(NAME), "--allow-http")
        second, fetched = inspect(anyflash, server.url(NAME), "--allow-http",
                                  **nowhere_to_unpack(tmp_path))
    assert first == second and fetched == path.stat().st_size


def test_libraries_that_a_package_brings_are_shown_only_when_asked(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp27-cp27mu-linux_x86_64.whl",
                 {"demo/ext.abi3.so": module(tmp_path).read_bytes(),
                  "demo.libs/libown.so":
                      build(tmp_path, "libown.so", "void own(void) {}\n").read_bytes()})
    brief = anyflash("inspect", str(path), "--against", sys.executable)
    whole = anyflash("inspect", str(path), "--against", sys.executable, "-v")
    assert "libown.so" not in brief.out and "1 library bundled" in brief.out
    assert "libown.so" in whole.out
    said, _ = inspect(anyflash, path)
    verdicts = {row["name"]: row["verdict"] for row in said["extensions"]}
    assert verdicts == {"demo/ext.abi3.so": "no", "demo.libs/libown.so": "yes"}
