"""Tests of the Python package against a built library: $ANYFLASH_LIBRARY, `tests/run python`.

What a test needs beyond the standard library (NumPy, torch) it asks for by
pytest.importorskip, so that the suite runs in every environment.
"""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]


@pytest.fixture
def check_schema():
    """check_schema(text): text is an answer in JSON that satisfies its schema."""
    pytest.importorskip("jsonschema")
    import schemas

    return schemas.check
