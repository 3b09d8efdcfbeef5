"""packaging/abi.sh finds what breaks programs that were compiled before, and nothing else: on
libraries compiled from copies of anyflash.h with one change each.
"""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include" / "anyflash" / "anyflash.h").read_text()
SCRIPT = ROOT / "packaging" / "abi.sh"


def changed(pattern, replacement):
    header, count = re.subn(pattern, replacement, HEADER, count=1)
    assert count == 1, pattern
    return header


def compile_library(folder, header, soname="libanyflash.so.0"):
    """A library that defines each function of the header."""
    (folder / "engine").mkdir(parents=True)
    stripped = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    declared = re.findall(r"^ANYFLASH_API (.*?\));", stripped, re.S | re.M)
    (folder / "engine" / "anyflash.h").write_text(header)
    source = folder / "engine" / "library.c"
    bodies = [f"{function} {{ __builtin_trap(); }}" for function in declared]
    source.write_text("\n".join(['#include "anyflash.h"', *bodies]))
    library = folder / "libanyflash.so"
    command = ["cc", "-g", "-shared", "-fPIC", f"-Wl,-soname,{soname}", source, "-o", library]
    subprocess.run(command, check=True, cwd=folder)
    return library


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("abi")
    library = compile_library(folder / "first", HEADER)
    command = [SCRIPT, "--record", library, folder / "record.abi"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "record.abi"


def compare(tmp_path, record, header, **options):
    """(whether it passes, the messages)."""
    library = compile_library(tmp_path / "second", header, **options)
    done = subprocess.run([SCRIPT, library, record], text=True, capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0, done.stderr


BACKWARD_END = r"(struct anyflash_attend_backward_args \{.*?)(\n\};)"
HARMLESS = {
    "nothing": HEADER,
    "a comment": changed(r"Valid C99", "Is valid C99"),
    "a new function": changed(
        r"(ANYFLASH_API const char)", r"ANYFLASH_API int anyflash_x(void);\n\1"
    ),
    "a struct that grows at its end": changed(
        "(?s)" + BACKWARD_END, r"\1\n    int64_t added;\2"
    ),
    "a new status": changed(r"(ANYFLASH_E_INTERNAL = 9)", r"\1, ANYFLASH_E_NEW = 10"),
}
HARMFUL = {
    "a function that is gone": changed(
        r"ANYFLASH_API (const char \*anyflash_status_text)", r"\1"
    ),
    "a parameter of another type": changed(
        r"anyflash_status_text\(enum anyflash_status status\)",
        "anyflash_status_text(const char *status)",
    ),
    "one more parameter": changed(
        r"anyflash_version_text\(void\)", "anyflash_version_text(int)"
    ),
    "a member in the middle": changed(
        r"(struct anyflash_attend_args \{\n\s+size_t struct_size;)", r"\1\n    int64_t added;"
    ),
    "a member of another type": changed(r"    int64_t batch;", "    double batch;"),
    "a struct without struct_size that grows": changed(
        r"(    char message\[)400\]", r"\g<1>500]"
    ),
    "a status with another number": changed(r"ANYFLASH_E_LIMIT = 5", "ANYFLASH_E_LIMIT = 15"),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_programs_go_on_working_after(tmp_path, record, what):
    passes, said = compare(tmp_path, record, HARMLESS[what])
    assert passes and not said, said


@pytest.mark.parametrize("what", HARMFUL)
def test_programs_break_after(tmp_path, record, what):
    passes, said = compare(tmp_path, record, HARMFUL[what])
    assert not passes
    assert "would not work" in said and "raise ANYFLASH_SOVERSION" in said


def test_another_soname_needs_a_new_record(tmp_path, record):
    header = HARMFUL["a member of another type"]
    passes, said = compare(tmp_path, record, header, soname="libanyflash.so.1")
    assert not passes
    assert "is libanyflash.so.1, the recorded ABI is that of libanyflash.so.0" in said
    assert "--record" in said
