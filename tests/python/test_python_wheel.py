"""The wheel without a library, packaging/python_wheel.py, in a new environment: what it
imports, what it says, and what it computes without torch; test_torch_python_wheel.py has torch.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ANYFLASH"))}
LACKS = "which this installation of anyflash lacks: the wheels for Linux (x86_64 and aarch64, "


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder of programs of a new environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("any")
    make = [sys.executable, "-B", ROOT / "packaging" / "python_wheel.py", folder]
    wheel = subprocess.run(make, env=CLEAN, text=True, capture_output=True, check=True).stdout
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], env=CLEAN, check=True)
    install = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel.strip()]
    subprocess.run([venv / "bin" / "python", *install], env=CLEAN, check=True)
    return venv / "bin"


def run(environment, program, *words):
    """(exit code, stdout, stderr)."""
    command = [environment / program, *words]
    done = subprocess.run(command, env=CLEAN, text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "system, name",
    [("linux", "libanyflash.so"), ("win32", "anyflash.dll"), ("darwin", "libanyflash.dylib")],
)
def test_it_imports_on_every_system_and_says_what_the_engine_lacks(environment, system, name):
    code = (
        f"import ctypes, shutil, subprocess, sys; sys.platform = {system!r}\n"
        "import anyflash, anyflash.shim\n"
        "print(anyflash.__version__, anyflash.threads())\n"
        "anyflash.set_threads(1)"
    )
    _, out, err = run(environment, "python", "-c", code)
    assert out.endswith(" 0\n"), err
    said = err.splitlines()[-1]
    assert said.startswith(f"ImportError: anyflash's engine needs the library {name}, {LACKS}")


def test_attend_says_what_is_missing(environment):
    code = (
        "import array, types, anyflash\n"
        "number = array.array('f', [1.0])\n"
        "one = types.SimpleNamespace(\n"
        "    dtype=types.SimpleNamespace(name='float32', isnative=True, itemsize=4),\n"
        "    shape=(1, 1, 1, 1), strides=(4, 4, 4, 4), itemsize=4,\n"
        "    __array_interface__={'data': (number.buffer_info()[0], False), 'strides': None})\n"
        "anyflash.attend(one, one, one, out=one)"
    )
    _, _, err = run(environment, "python", "-c", code)
    assert "ImportError: anyflash's engine needs the library" in err and LACKS in err, err


def test_the_command_says_that_there_is_no_program_and_what_works(environment):
    code, out, err = run(environment, "anyflash", "plan")
    first, hint = err.splitlines()
    assert (code, out) == (3, "") and hint.startswith("hint: ")
    assert first.startswith("error: this installation of anyflash has no program for this")
    code, out, err = run(environment, "anyflash", "shim", "--help")
    assert code == 0 and not err, err


def test_the_table_of_providers_says_why_the_engine_is_none(environment):
    code, out, err = run(environment, "anyflash", "providers")
    assert code == 0 and "  no   engine           needs the library libanyflash.so" in out, err


def test_a_library_that_is_there_and_damaged_fails_at_import(environment, tmp_path):
    code, out, _ = run(environment, "python", "-c", "import anyflash; print(anyflash.__file__)")
    library = pathlib.Path(out.strip()).with_name("libanyflash.so")
    for content in (b"", b"\x7fELF\x02\x01\x01", b"MZ" + bytes(100)):
        library.write_bytes(content)
        _, _, err = run(environment, "python", "-c", "import anyflash")
        library.unlink()
        said = err.splitlines()[-1]
        assert said.startswith(f"ImportError: anyflash cannot load its library '{library}' (")
        assert said.endswith("): reinstall anyflash"), said


def test_a_program_that_cannot_run_is_an_error_with_a_hint(environment):
    code, out, _ = run(environment, "python", "-c", "import anyflash; print(anyflash.__file__)")
    program = pathlib.Path(out.strip()).parent / "bin" / "anyflash"
    program.parent.mkdir()
    for mode, reason in ((0o644, "Permission denied"), (0o755, "Exec format error")):
        program.write_bytes(b"\x7fELF" + bytes(60))
        program.chmod(mode)
        code, _, err = run(environment, "anyflash", "plan")
        said = f"error: cannot run '{program}': {reason}\nhint: reinstall anyflash\n"
        assert (code, err) == (3, said)
    shutil.rmtree(program.parent)
