"""Tests of the Python package against a built library: $ANYFLASH_LIBRARY, `tests/run python`.

What a test needs beyond the standard library (NumPy, torch) it asks for by
pytest.importorskip, so that the suite runs in every environment.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
