"""The code of docs/guide/optional-in-your-library.md runs: without flash_attn, with a broken
one and with a working one."""

import os
import pathlib
import re

import pytest
from conftest import python

pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guide" / "optional-in-your-library.md").read_text()
FALLBACK, ALONE = re.findall(r"```python\n(.*?)```", TEXT, re.S)
WORKING = "def flash_attn_func(): pass\nflash_attn_varlen_func = flash_attn_func\n"
BROKEN = "raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E')\n"


def run(code, folder, flash_attn=None, hidden=""):
    """(module of flash_attn_func, stderr) after the code, beside this flash_attn."""
    if flash_attn is not None:
        (folder / "flash_attn.py").write_text(flash_attn)
    head = f"import sys\nsys.modules.update(dict.fromkeys({hidden.split()!r}))\n"
    tail = "\nprint(getattr(flash_attn_func, '__module__', None))"
    path = os.pathsep.join([str(folder), str(ROOT / "python")])
    done = python(head + code + tail, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_without_flash_attn_it_is_anyflash(tmp_path):
    assert run(FALLBACK, tmp_path) == ("anyflash.flash_attn", "")
    assert run(ALONE, tmp_path)[0] == "anyflash.flash_attn"


def test_a_working_flash_attn_is_taken(tmp_path):
    assert run(FALLBACK, tmp_path, WORKING) == ("flash_attn", "")


def test_a_broken_flash_attn_is_named_with_its_cause(tmp_path):
    module, said = run(FALLBACK, tmp_path, BROKEN)
    assert module == "anyflash.flash_attn"
    assert "installed, but broken" in said and "undefined symbol" in said


def test_without_both_the_names_are_none(tmp_path):
    assert run(FALLBACK, tmp_path, BROKEN, hidden="anyflash.flash_attn")[0] == "None"


def test_the_configuration_is_toml():
    tomllib = pytest.importorskip("tomllib")
    project, tool = (tomllib.loads(x) for x in re.findall(r"```toml\n(.*?)```", TEXT, re.S))
    extras = project["project"]["optional-dependencies"]
    (conflict,) = tool["tool"]["uv"]["conflicts"]
    assert {one["extra"] for one in conflict} == set(extras)
