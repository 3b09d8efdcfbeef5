"""Tests against the real transformers, diffusers, kernels and vLLM: `tests/run integrations`.

They need no network: models are tiny and made in code (tiny.py).
"""

import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "integrations"
sys.path[:0] = [str(ROOT / "python"), str(HERE), str(ROOT / "tests" / "python")]
