"""`anyflash verify` with packages that work, are damaged, give wrong answers, crash or print
too much.

torch is a stand-in with just what the checks call, and flash_attn a module
whose function each test chooses. tests/real compares numbers.
"""
import base64
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
import venv

import pytest
from conftest import is_wide

TORCH = '''
__version__ = "2.9.1+cu128"
float32 = int64 = int16 = bfloat16 = None
class Tensor:
    def __getattr__(self, name):
        return lambda *a, **k: self
    def __add__(self, other): return self
    __mul__ = __mod__ = __rshift__ = __sub__ = __truediv__ = __add__
def arange(count, dtype=None): return Tensor()
class cuda:
    is_available = staticmethod(lambda: False)
'''
REFUSES = '''
__version__ = "2.8.3"
def flash_attn_func(q, k, v, causal=False):
    raise RuntimeError("q must be on CUDA")
'''


def record_line(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


class Environment:
    """A virtual environment with a stand-in torch and a flash_attn of one file."""

    def __init__(self, folder):
        venv.create(folder, symlinks=True, with_pip=False)
        self.folder = folder
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = folder / "lib" / version / "site-packages"
        self.put("torch/__init__.py", TORCH)

    def put(self, path, text):
        file = self.site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return record_line(path, text.encode())

    def install(self, code, version="2.8.3"):
        info = f"flash_attn-{version}.dist-info"
        lines = self.put("flash_attn/__init__.py", code)
        metadata = f"Metadata-Version: 2.1\nName: flash_attn\nVersion: {version}\n"
        lines += self.put(f"{info}/METADATA", metadata)
        lines += self.put(f"{info}/INSTALLER", "uv")
        self.put(f"{info}/RECORD", lines + f"{info}/RECORD,,\n")


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "env")


@pytest.fixture
def verify(anyflash, environment):
    def run(*words, **options):
        python = str(environment.folder)
        answer = anyflash("verify", "--python", python, "--json", *words, **options)
        rows = json.loads(answer.out)
        assert rows["schema"] == "anyflash-verify/1"
        return answer, {row["check"]: row for row in rows["checks"]}, rows["answer"]
    return run


def test_a_sound_package_without_a_gpu_is_unknown_and_not_an_error(environment, verify):
    environment.install(REFUSES)
    answer, rows, verdict = verify()
    assert answer.code == 0 and verdict == "unknown"
    for name in ("files", "import", "version", "call"):
        assert rows[name]["answer"] == "yes"
    assert "q must be on CUDA" in rows["call"]["evidence"]
    assert rows["kernels"]["answer"] == "unknown"
    assert "GHSA-7g5w-pq96-8c5w" in answer.err


def test_a_changed_file_is_named(environment, verify):
    environment.install(REFUSES)
    environment.put("flash_attn/__init__.py", REFUSES.replace("on CUDA", "on ROCm"))
    answer, rows, verdict = verify()
    assert answer.code == 1 and verdict == "no"
    evidence = rows["files"]["evidence"]
    assert "flash_attn/__init__.py: its content differs from RECORD" in evidence


def test_an_import_error_is_the_cause_shown(environment, verify):
    environment.install('raise ImportError("undefined symbol: _ZN3c105ErrorC2E")')
    answer, rows, _ = verify()
    assert answer.code == 1
    assert rows["import"]["evidence"].endswith(
        "import of flash_attn: ImportError: undefined symbol: _ZN3c105ErrorC2E")


def test_a_crash_at_import_is_told_with_its_signal(environment, verify):
    environment.install("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    answer, rows, _ = verify()
    assert answer.code == 1
    assert rows["import"]["evidence"] == "import of flash_attn: killed by signal 11"


def test_a_crash_in_the_call_is_told_apart_from_the_import(environment, verify):
    environment.install(REFUSES.replace('raise RuntimeError("q must be on CUDA")',
                                        "import os; os.abort()"))
    _, rows, _ = verify()
    assert rows["import"]["answer"] == "yes"
    assert rows["call"]["evidence"] == "a call with CPU tensors: killed by signal 6"


def test_python_files_of_another_version_than_the_extension_are_found(environment, verify):
    environment.install(REFUSES.replace('RuntimeError("q must be on CUDA")',
                                        'TypeError("fwd(): incompatible function arguments")'))
    answer, rows, _ = verify()
    assert answer.code == 1 and rows["call"]["answer"] == "no"


def test_another_version_than_metadata_says_is_found(environment, verify):
    environment.install(REFUSES.replace("2.8.3", "2.7.4"))
    answer, rows, _ = verify()
    assert answer.code == 1 and rows["version"]["answer"] == "no"


def test_output_of_the_package_is_not_taken_for_an_answer(environment, verify):
    environment.install('print("anyflash-verify {not json")\nprint("x" * 500000)\n' + REFUSES)
    _, rows, _ = verify()
    assert rows["import"]["answer"] == "no"  # the output was cut off, so it proves nothing


def test_nothing_installed_is_a_no_with_the_next_step(environment, verify):
    answer, rows, _ = verify()
    assert answer.code == 1 and "anyflash plan" in rows["installed"]["evidence"]


def test_the_text_fits_its_columns_and_says_the_answer_first(anyflash, environment):
    environment.install(REFUSES)
    answer = anyflash("verify", "--python", str(environment.folder))
    assert answer.code == 0
    assert [line for line in answer.out.splitlines() if is_wide(line)] == []
    assert answer.out.splitlines()[0].endswith("some checks could not run here")


@pytest.mark.parametrize("package", ["flash-attn", "flash-attn-3"])
def test_the_text_says_first_that_nothing_is_installed(anyflash, environment, package):
    answer = anyflash("verify", "--python", str(environment.folder), "--package", package)
    first, next_step = answer.out.split("\nNext: ")  # the first may have two lines
    assert answer.code == 1 and next_step.startswith("`anyflash plan "), answer
    assert str(environment.folder) in next_step
    assert first.split()[:4] == [package, "is", "not", "installed"]


def test_an_unknown_package_is_a_usage_error(anyflash, environment):
    answer = anyflash("verify", "--python", str(environment.folder), "--package", "numpy")
    assert answer.code == 2 and "flash-attn-3" in answer.err


def test_an_interruption_says_that_nothing_was_changed(environment, anyflash, tmp_path):
    started = tmp_path / "started"
    environment.install(f"open({str(started)!r}, 'w').close()\n"
                        "import time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [anyflash.program, "verify", "--python", str(environment.folder)], text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    until = time.monotonic() + 20
    while not started.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and out == ""
    assert "interrupted" in err and "nothing was changed" in err
    assert "took too long" not in err


@pytest.fixture(autouse=True)
def clean(tmp_path):
    yield
    shutil.rmtree(tmp_path / "env", ignore_errors=True)
