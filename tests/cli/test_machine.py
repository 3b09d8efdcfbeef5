"""`anyflash machine`: the record, partial and hostile records, and --given."""
import array
import fcntl
import json
import os
import signal
import subprocess
import termios
import time

import pytest
from conftest import PROGRAM


def record(anyflash, *words, **options):
    answer = anyflash("machine", *words, **options)
    assert answer.code == 0, answer
    return json.loads(answer.out)


def test_record_of_this_machine_has_a_schema_and_sources(anyflash):
    found = record(anyflash)
    assert found["schema"] == "anyflash-machine/1"
    assert found["platform"]["os"] == {"value": "linux", "source": "uname(2)"}


def test_record_reads_back_as_itself(anyflash, tmp_path):
    first = anyflash("machine").out
    (tmp_path / "here.json").write_text(first)
    again = record(anyflash, "--machine", "here.json")
    assert again == json.loads(first)


def test_record_reads_standard_input(anyflash):
    document = b'{"schema": "anyflash-machine/1", "platform": {"os": "linux"}}'
    found = record(anyflash, "--machine", "-", input=document)
    assert found["platform"]["os"]["value"] == "linux"
    assert "unknown" in found["platform"]["arch"]


def test_wheels_that_were_built_are_found(anyflash, tmp_path):
    name = "flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl"
    places = [f"pip/wheels/ab/cd/ef/0123/{name}",
              f"anyflash/build/0123/wheels/{name}",
              f"uv/sdists-v11/pypi/flash-attn/2.8.3/k/{name}"]
    others = [f"anyflash/build/0123/flash-attn/{name}",
              f"uv/sdists-v11/pypi/flash-attn/2.8.3/k/src/{name}",
              "pip/wheels/ab/cd/ef/0123/einops-0.8.1-py3-none-any.whl"]
    for place in places + others:
        (tmp_path / "cache" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / place).write_bytes(b"")
    rows = record(anyflash, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})["cached_wheels"]
    assert [(row["tool"]["value"], row["path"]["value"]) for row in rows] == [
        (place.split("/")[0], str(tmp_path / "cache" / place)) for place in places]


def test_given_words_alone_describe_a_machine_by_hand(anyflash):
    found = record(anyflash, "--given", "torch=2.9.1+cu128", "--given", "cores=8")
    assert found["torch"]["version"]["value"] == "2.9.1+cu128"
    assert found["resources"]["cores"]["value"] == 8
    assert "unknown" in found["python"]["version"]


def test_given_words_override_a_record(anyflash):
    document = b'{"schema": "anyflash-machine/1", "torch": {"version": "2.8.0"}}'
    found = record(anyflash, "-m", "-", "-g", "torch=2.9.1", input=document)
    assert found["torch"]["version"]["value"] == "2.9.1"


def test_here_starts_from_this_machine(anyflash):
    found = record(anyflash, "--here", "--given", "cores=99")
    assert found["platform"]["os"]["value"] == "linux"
    assert found["resources"]["cores"]["value"] == 99


def test_a_value_that_cannot_be_read_is_an_error(anyflash):
    answer = anyflash("machine", "--given", "torch=newest")
    assert answer.code == 2 and answer.out == ""
    assert answer.err.startswith("error: --given torch=newest: not one version of torch\n")


def test_quiet_drops_the_remark(anyflash):
    assert anyflash("machine", "--given", "gpu=FOO9000").err.startswith("note: gpu=FOO9000: ")
    assert anyflash("machine", "-q", "--given", "gpu=FOO9000").err == ""


@pytest.mark.parametrize("words, code", [
    (["--given", "nonsense"], 2),
    (["--given", "nosuchkey=1"], 2),
    (["--machine", "absent.json"], 3),
    (["--machine", "/"], 3),
    (["--machine", "/dev/zero"], 3),
    (["--here", "--machine", "a.json"], 2),
    (["--given", "os=linux", "--python", "3.12"], 2),
    (["--machine", "a.json", "--machine", "b.json"], 2),
])
def test_wrong_machines_are_refused(anyflash, words, code):
    answer = anyflash("machine", *words)
    assert answer.code == code and answer.out == ""
    assert answer.err.startswith("error: ")


@pytest.mark.parametrize("document", [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe\x00",
    b'{"schema": "anyflash-machine/99"}',
    b'{"schema": "anyflash-machine/1", "nosuchgroup": {}}',
    b'{"schema": "anyflash-machine/1", "platform": {"os": 3}}',
    b'{"schema": "anyflash-machine/1", "platform": {"os": "a", "os": "b"}}',
    b'{"schema": "anyflash-machine/1", "resources": {"cores": 1e400}}',
    b'{"schema": "anyflash-machine/1", "resources": {"cores": 99999999999999999999}}',
    pytest.param(b'{"schema": "anyflash-machine/1", "platform": ' + b"[" * 100000 +
                 b"]" * 100000 + b"}", id="deep"),
    pytest.param(b'{"schema": "anyflash-machine/1"}' + b" " * (5 * 1024 * 1024), id="long"),
])
def test_hostile_records_exit_3_and_name_the_file(anyflash, tmp_path, document):
    (tmp_path / "bad.json").write_bytes(document)
    answer = anyflash("machine", "--machine", "bad.json")
    assert answer.code == 3 and "bad.json" in answer.err and answer.out == ""


def test_a_named_pipe_is_read_when_its_writer_comes(anyflash, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    script = "sleep 0.2; echo '{\"remark\": \"mine\"}' > pipe.json"
    writer = subprocess.Popen(["sh", "-c", script], cwd=tmp_path)
    answer = anyflash("machine", "--machine", "pipe.json")
    assert json.loads(answer.out)["remark"] == "mine"
    assert writer.wait() == 0


def test_terminal_escapes_of_a_record_are_not_printed(anyflash, tmp_path):
    document = {"schema": "anyflash-machine/1", "remark": "\x1b[2J",
                "python": {"prefix": "/a\x1b]0;x\x07b"}}
    (tmp_path / "escape.json").write_text(json.dumps(document))
    answer = anyflash("machine", "--machine", "escape.json")
    assert answer.code == 0 and "\x1b" not in answer.out


def test_tags_are_one_a_line_best_first(anyflash):
    answer = anyflash("machine", "--tags", "--given", "os=linux", "--given", "arch=x86_64",
                      "--given", "glibc=2.36", "--given", "python=3.12")
    lines = answer.out.splitlines()
    assert answer.code == 0 and lines[0].startswith("cp312-cp312-")
    assert lines[-1].endswith("-any") and len(set(lines)) == len(lines)


def test_tags_without_a_python_exit_3(anyflash):
    answer = anyflash("machine", "--tags", "--given", "os=linux")
    assert answer.code == 3 and "Python" in answer.err


def test_schema_lists_every_fact_of_the_record(anyflash):
    schema = json.loads(anyflash("machine", "--schema").out)
    found = record(anyflash)
    for group in schema["groups"]:
        assert group["name"] in found
        if not group["is_list"]:
            assert [fact["name"] for fact in group["facts"]] == list(found[group["name"]])


def wait_until_read(pipe):
    """Waits until the other end has read everything that was written to `pipe`."""
    left = array.array("i", [1])
    deadline = time.monotonic() + 60
    while left[0] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)
        fcntl.ioctl(pipe, termios.FIONREAD, left)


def test_interrupt_exits_130_quietly():
    with subprocess.Popen([PROGRAM, "machine", "--machine", "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"{")
        process.stdin.flush()
        wait_until_read(process.stdin)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode == 130
        assert process.stdout.read() == b"" and process.stderr.read() == b""


def test_an_ignored_interrupt_stays_ignored():
    """As in `anyflash machine &` in a script: Ctrl-C is for the program in the foreground."""
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen([PROGRAM, "machine", "--machine", "-"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, old)
    process.stdin.write(b'{"schema": "anyflash-machine/1"')
    process.stdin.flush()
    wait_until_read(process.stdin)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(b"}", timeout=60)
    assert process.returncode == 0 and json.loads(out)["schema"] == "anyflash-machine/1"


def test_tags_are_no_json(anyflash):
    answer = anyflash("machine", "--tags", "--json")
    assert answer.code == 2 and answer.out == ""
    assert "--tags cannot be used with --json" in answer.err
