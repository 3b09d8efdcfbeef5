"""The Python examples of docs/integrations.md and of the README run as they stand."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples():
    text = (ROOT / "docs" / "integrations.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", range(len(examples())))
def test_example_of_the_guide(number):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", examples()[number]], check=True, env=environment)
