"""The code of docs/guide/optional-in-your-library.md runs: without flash_attn, with a broken
one and with a working one."""

import pathlib
import re

import pytest
from conftest import python

pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guide" / "optional-in-your-library.md").read_text()
(FALLBACK,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
WORKING = "def flash_attn_func(): pass\nflash_attn_varlen_func = flash_attn_func\n"
BROKEN = "raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E')\n"


def run(code, folder, flash_attn=None):
    """(module of flash_attn_func, stderr) after the code, beside this flash_attn."""
    if flash_attn is not None:
        (folder / "flash_attn.py").write_text(flash_attn)
    tail = "\nprint(getattr(flash_attn_func, '__module__', None))"
    done = python(code + tail, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_without_flash_attn_the_names_are_none(tmp_path):
    assert run(FALLBACK, tmp_path) == ("None", "")


def test_a_working_flash_attn_is_taken(tmp_path):
    assert run(FALLBACK, tmp_path, WORKING) == ("flash_attn", "")


def test_a_broken_flash_attn_is_named_with_its_cause(tmp_path):
    module, said = run(FALLBACK, tmp_path, BROKEN)
    assert module == "None"
    assert "installed, but broken" in said and "undefined symbol" in said


def test_the_configuration_is_toml():
    tomllib = pytest.importorskip("tomllib")
    (project,) = (tomllib.loads(x) for x in re.findall(r"```toml\n(.*?)```", TEXT, re.S))
    assert list(project["project"]["optional-dependencies"]) == ["flash"]
