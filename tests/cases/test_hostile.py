"""Malicious or broken files, folders, variables and records.

In every case the program ends by itself within bounds of time and memory, with one of its
documented exit codes, and prints no terminal control sequence.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

import cases

SANITIZED = b"__asan_init" in pathlib.Path(cases.PROGRAM).read_bytes()
SECONDS_MAX = 20  # long enough to mean a hang, not a busy machine
MEMORY_MAX_BYTES = 256 << 20
HUGE_BYTES = 200 << 20
NOBODY = 65534
PYTHON = pathlib.Path(sys.executable).resolve()
VERSION = "{}.{}".format(*sys.version_info)
SITE = f"lib/python{VERSION}/site-packages"


def limit():
    if not SANITIZED:  # sanitizers reserve terabytes of address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def tame(*words, folder, given=b"", prefix=(), **variables):
    """Runs the program and checks what must hold for every run; (code, all output)."""
    begin = time.monotonic()
    done = subprocess.run([*prefix, cases.PROGRAM, *words], cwd=folder, input=given,
                          env=cases.environment(**variables), capture_output=True,
                          timeout=60, preexec_fn=limit)
    seconds = time.monotonic() - begin
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1, 2, 3), said.decode(errors="replace")[-2000:]
    assert b"Sanitizer" not in said and b"runtime error" not in said
    text = said.decode("utf-8")
    steering = {c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160}
    assert not steering, steering
    assert seconds < SECONDS_MAX, f"{seconds:.1f} s"
    return done.returncode, text


def sparse(path, size_bytes=HUGE_BYTES):
    with open(path, "wb") as file:
        file.truncate(size_bytes)


@pytest.fixture
def env(tmp_path):
    """A minimal virtual environment, with a torch of two files."""
    site = tmp_path / "env" / SITE
    (site / "torch/lib").mkdir(parents=True)
    (site / "torch/version.py").write_text(
        "__version__ = '2.8.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\n"
        "git_version = 'ba56102387ef21a3b04b357e5b183d48f0afefc7'\nhip: Optional[str] = None\n")
    info = site / "flash_attn-2.8.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: flash_attn\nVersion: 2.8.3\n")
    (info / "RECORD").write_text("flash_attn_2_cuda.abi3.so,,1\n")
    (tmp_path / "env/bin").mkdir()
    (tmp_path / "env/bin/python").symlink_to(PYTHON)
    (tmp_path / "env/pyvenv.cfg").write_text(f"home = {PYTHON.parent}\nversion = {VERSION}.2\n")
    return tmp_path / "env"


def look(env, *words):
    """The machine record of `env`; probing must succeed."""
    code, text = tame("machine", *words, "--python", str(env), folder=env.parent)
    assert code == 0, text
    return json.loads(text[text.index("{"):text.rindex("}") + 1])


def is_unknown(fact):
    return isinstance(fact, dict) and "unknown" in fact


def test_env__small_one_is_understood(env):
    record = look(env)
    assert record["torch"]["version"]["value"] == "2.8.0+cu128"
    assert record["packages"][0]["version"]["value"] == "2.8.3"


BREAKAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "escapes": lambda path: path.write_bytes(b"__version__ = '2.8\x1b[2J\xff\x9b31m'\n" * 9),
    "long-line": lambda path: path.write_bytes(b"__version__ = '" + b"2" * 900000),
    "huge": sparse,
    "fifo": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "dangling": lambda path: path.symlink_to("/nonexistent/file"),
    "loop": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
}
PLACES = ["pyvenv.cfg", "bin/python", SITE + "/torch/version.py",
          SITE + "/torch/lib/libc10.so",
          SITE + "/torch",
          SITE + "/flash_attn-2.8.3.dist-info/METADATA",
          SITE + "/flash_attn-2.8.3.dist-info/RECORD",
          SITE + "/flash_attn-2.8.3.dist-info/direct_url.json",
          SITE, "lib"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_env__broken_anywhere_ends_in_a_record_or_a_refusal(env, place, breakage):
    path = env / place
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
    BREAKAGES[breakage](path)
    code, text = tame("machine", "--python", str(env), folder=env.parent)
    assert code in (0, 3), text
    if code == 3:
        assert "error" in text and str(env) in text
    code, text = tame("plan", "--python", str(env), folder=env.parent)
    assert code in (0, 1, 3), text


@pytest.mark.parametrize("breakage", ["binary", "huge", "fifo", "loop", "folder", "device"])
def test_version_py__that_cannot_be_read_is_unknown_with_the_file(env, breakage):
    path = env / SITE / "torch/version.py"
    path.unlink()
    BREAKAGES[breakage](path)
    version = look(env)["torch"]["version"]
    assert is_unknown(version) and "version.py" in version["unknown"]


@pytest.mark.parametrize("name", [".venv", "pyproject.toml", "uv.lock", "uv.toml", "pixi.toml",
                                  ".python-version", "flash_attn"])
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_project__broken_files_do_no_harm(tmp_path, name, breakage):
    BREAKAGES[breakage](tmp_path / name)
    code, text = tame("machine", folder=tmp_path, PATH="/usr/bin")
    assert code in (0, 3), text


def test_env__names_that_are_no_text_are_scrubbed(env):
    site = os.fsencode(env / SITE)
    for name in (b"flash_attn-\xff\xfe.dist-info", b"xformers-1\x1b[31m.dist-info",
                 b"torch-2\n8.dist-info", b"a" * 255):
        os.mkdir(site + b"/" + name)
    look(env)


def test_env__ten_thousand_packages_are_read_in_time(env):
    site = env / SITE
    for i in range(10000):
        (site / f"p{i}-1.0.dist-info").mkdir()
    look(env)


def test_folder__name_that_steers_a_terminal_is_scrubbed(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\x1b[2J\xff"
    os.mkdir(folder)
    os.mkdir(folder + b"/.venv")
    tame("machine", folder=folder)
    tame("doctor", folder=folder)


def test_folder__that_is_gone_does_no_harm(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    tame("-c", f"rmdir '{gone}'; exec '{cases.PROGRAM}' doctor", folder=gone,
         prefix=("/bin/sh", "-c", 'shift; exec /bin/sh "$@"', "sh"))


VARIABLES = {
    "empty path": {"PATH": ""},
    "long path": {"PATH": ":".join(f"/nonexistent/{i}" for i in range(5000))},
    "path of files": {"PATH": "/etc/passwd:/dev/zero:.:::"},
    "environment is a file": {"VIRTUAL_ENV": "/etc/passwd"},
    "environment is the root": {"VIRTUAL_ENV": "/", "CONDA_PREFIX": "/"},
    "home is relative": {"HOME": "../.."},
    "toolkit is a device": {"CUDA_HOME": "/dev/zero", "CUDA_PATH": "/proc/self"},
    "long value": {"VIRTUAL_ENV": "/" + "a/" * 30000},
    "steering": {"UV_INDEX_URL": "https://host/\x1b[2J\x07",
                 "CUDA_VISIBLE_DEVICES": "\x1b]0;x\x07"},
}


@pytest.mark.parametrize("variables", VARIABLES.values(), ids=VARIABLES.keys())
def test_variables__that_make_no_sense_do_no_harm(tmp_path, variables):
    for command in ("machine", "doctor"):
        tame(command, folder=tmp_path, **variables)


def test_variables__secrets_are_not_printed(tmp_path):
    _, text = tame("machine", folder=tmp_path, UV_INDEX_URL="https://ana:hunter2@host/simple",
                   UV_PUBLISH_TOKEN="hunter2", PIP_PROXY="http://ana:hunter2@proxy:8080",
                   PIP_EXTRA_INDEX_URL="https://hunter2@host/a https://b:hunter2@host/c")
    assert "UV_INDEX_URL" in text and "hunter2" not in text


@pytest.fixture
def readable_by_all():
    """A folder that another user may enter, and the command prefix that runs as that user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv (package util-linux), to become another user")
    as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    program = folder / "anyflash"
    shutil.copy(cases.PROGRAM, program)
    yield folder, (*as_nobody,), program
    shutil.rmtree(folder)


@pytest.mark.parametrize("place", [SITE, "bin", "lib", "pyvenv.cfg",
                                   SITE + "/torch",
                                   SITE + "/torch/version.py",
                                   SITE + "/flash_attn-2.8.3.dist-info"])
def test_env__unreadable_parts_are_unknown(env, readable_by_all, monkeypatch, place):
    folder, prefix, program = readable_by_all
    shutil.move(env, folder / "env")
    (folder / "env" / place).chmod(0)
    monkeypatch.setattr(cases, "PROGRAM", str(program))
    code, text = tame("machine", "--python", str(folder / "env"), folder=folder, prefix=prefix)
    if code == 0:
        assert "ermission" in text or "may read" in text
        assert '"version": {"value": null' not in text, "hidden is not absent"
    else:
        assert code == 3 and "error" in text


START = b'{"schema":"anyflash-machine/1",'
RECORDS = {
    "nothing": b"",
    "not json": b"no record at all",
    "cut short": b'{"schema": "anyflash-machine/1", "torch": {"version": "2.8',
    "deep": b'{"torch":' + b"[" * 100000,
    "deep objects": b'{"a":' * 50000,
    "huge number": START + b'"resources":{"cores":1' + b"0" * 400 + b"}}",
    "number past 64 bits": START + b'"resources":{"cores":99999999999999999999}}',
    "real number": START + b'"resources":{"cores":1e300}}',
    "negative": START + b'"resources":{"cores":-1}}',
    "wrong type": START + b'"torch":{"version":28}}',
    "wrong list": START + b'"gpus":{"name":"x"}}',
    "unknown key": START + b'"torch":{"verzion":"2.8"}}',
    "other schema": b'{"schema":"anyflash-machine/9","torch":{"version":"2.8"}}',
    "array": b"[]",
    "no utf-8": START + b'"torch":{"version":"2.8\xff"}}',
    "nul": START + b'"torch":{"version":"2.8\x00"}}',
    "key that steers": START + b'"\\u001b[2J":{}}',
    "too many rows": START + b'"gpus":[' + b"{}," * 5000 + b"{}]}",
    "too large": START + b'"remark":"' + b"x" * (5 << 20) + b'"}',
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
@pytest.mark.parametrize("command", ["plan", "doctor", "machine"])
def test_record__bad_one_is_refused_with_file_and_place(tmp_path, command, record):
    (tmp_path / "bad.json").write_bytes(record)
    code, text = tame(command, "--machine", "bad.json", folder=tmp_path)
    assert code == 3, text
    assert "bad.json" in text and text.startswith("error: ")


def test_record__text_that_steers_is_scrubbed(tmp_path):
    (tmp_path / "m.json").write_bytes(
        b'{"schema":"anyflash-machine/1","remark":"\\u001b[2J","torch":{"version":{"value":'
        b'"2.8.0\\u001b[31m","source":"\\u009b31m"}},"gpus":[{"name":"\\u0007\\u202e"}]}')
    for command in ("plan", "doctor", "machine"):
        assert tame(command, "--machine", "m.json", folder=tmp_path)[0] in (0, 1)


@pytest.mark.parametrize("breakage", ["huge", "folder", "dangling", "loop", "device"])
def test_record__that_is_no_file_is_refused(tmp_path, breakage):
    BREAKAGES[breakage](tmp_path / "bad.json")
    code, text = tame("plan", "--machine", "bad.json", folder=tmp_path)
    assert code == 3 and "bad.json" in text


ROW = (b'{"source":"a/b","package":"flash_attn","version":"2.8.3","release_tag":"v2.8.3",'
       b'"filename":"flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl","url":"https://h/f.whl",'
       b'"python":"cp312","abi":"cp312","platform":"linux_x86_64","evidence":"listed"}\n')
CATALOGS = {
    "not json": ROW + b"hello\n",
    "cut short": ROW + ROW[:60],
    "wrong type": ROW + ROW.replace(b'"2.8.3"', b"283", 1),
    "no file name": ROW + ROW.replace(b'"filename"', b'"filenam"'),
    "array": ROW + b"[]\n",
    "deep": ROW + b"[" * 100000 + b"\n",
    "binary": ROW + bytes(range(256)) * 100,
    "no utf-8": ROW + ROW.replace(b"a/b", b"a/\xff"),
    "long line": ROW + b'{"source":"' + b"x" * (8 << 20) + b'"}\n',
}


@pytest.mark.parametrize("catalog", CATALOGS.values(), ids=CATALOGS.keys())
def test_catalog__bad_row_is_refused_with_file_and_line(tmp_path, catalog):
    (tmp_path / "bad.jsonl").write_bytes(catalog)
    code, text = tame("find", "torch=2.8", "--catalog", "bad.jsonl", folder=tmp_path)
    assert code == 3, text
    assert "bad.jsonl" in text and "2" in text.split("bad.jsonl", 1)[1]


@pytest.mark.parametrize("breakage", ["huge", "fifo", "folder", "dangling", "loop", "device"])
def test_catalog__that_is_no_file_is_refused(tmp_path, breakage):
    BREAKAGES[breakage](tmp_path / "bad.jsonl")
    code, text = tame("plan", "--catalog", "bad.jsonl", "--given", "torch=2.8", folder=tmp_path)
    assert code == 3 and "bad.jsonl" in text


@pytest.mark.parametrize("fact", [b"torch=" + b"2" * 100000, b"torch=\x1b[2J", b"gpu=\xff\xfe",
                                  b"cores=-1", b"cores=99999999999999999999", b"ram_gb=nan",
                                  b"glibc=", b"sm=8.9.9.9", b"python=3.12\n", b"=", b"torch"])
def test_given__nonsense_is_a_remark_or_a_refusal(tmp_path, fact):
    code, text = tame("plan", "--given", fact, folder=tmp_path)
    assert code in (0, 1, 2), text


@pytest.mark.parametrize("words", [[b"\xff"], ["--\x1b[2J"], ["plan", "--prefer", "\x1b"],
                                   ["find", "torch=" + "x" * 100000], ["help", "\x9b"],
                                   ["plan", "--version", "2" * 5000],
                                   ["plan", "--arch", "\x07"]])
def test_words__that_steer_are_scrubbed(tmp_path, words):
    assert tame(*words, folder=tmp_path)[0] in (0, 1, 2)
