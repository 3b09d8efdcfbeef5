"""Tests of the Python package against a built library: $ANYFLASH_LIBRARY, `tests/run python`.

Tests that need more than the standard library (NumPy, torch) use pytest.importorskip, so
that the suite runs in every environment.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]


def python(code, **variables):
    """Runs the code in a new process of this Python with the package; the finished process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(autouse=True)
def no_calibration(monkeypatch):
    """The engine computes in these tests even on a processor on which torch is faster."""
    calibration = sys.modules.get("anyflash._calibration")
    if calibration is not None:
        monkeypatch.setattr(calibration, "is_measured", lambda facts, version: True)
        monkeypatch.setattr(calibration, "_TORCH_FEW", 0)


@pytest.fixture
def check_schema():
    """check_schema(text) checks a JSON answer against its schema."""
    pytest.importorskip("jsonschema")
    import schemas

    return schemas.check


@pytest.fixture
def resident():
    """resident() is the memory of this process in bytes."""

    def read():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    return read


@pytest.fixture
def enabled():
    """torch's attention is computed by the engine during the test."""
    import anyflash.torch

    anyflash.torch.enable()
    yield
    anyflash.torch.disable()
