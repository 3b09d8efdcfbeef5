"""What importing the package does, and does not do."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def python(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_importing_imports_neither_torch_nor_numpy():
    done = python(
        "import sys, anyflash; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_importing_takes_less_than_30_ms():
    code = (
        "import time; start = time.process_time(); import anyflash; "
        "print(time.process_time() - start)"
    )
    assert min(float(python(code).stdout) for _ in range(5)) < 0.030


def test_a_missing_library_is_an_import_error_that_names_it(tmp_path):
    missing = tmp_path / "libanyflash.so"
    done = python(
        f"import os; os.environ['ANYFLASH_LIBRARY'] = {str(missing)!r}; import anyflash"
    )
    assert "ImportError: anyflash cannot load its library" in done.stderr
    assert str(missing) in done.stderr


def test_the_struct_has_the_size_that_the_header_gives(tmp_path):
    source = tmp_path / "size.c"
    source.write_text(
        '#include <stdio.h>\n#include "anyflash/anyflash.h"\n'
        'int main(void) { printf("%zu %zu", sizeof(struct anyflash_attend_args), '
        "sizeof(struct anyflash_attend_backward_args)); return 0; }\n"
    )
    program = tmp_path / "size"
    subprocess.run(
        ["cc", f"-I{ROOT / 'include'}", str(source), "-o", str(program)], check=True
    )
    sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = python("from anyflash import _lib; print(_lib._FORMAT.size, _lib._BACKWARD.size)")
    assert done.stdout.strip() == sizes, done.stderr
