"""Runs the Python examples of the README and of the Python guide unchanged."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def run(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("number", range(len(examples("docs/guide/use-from-python.md"))))
def test_example_of_the_guide(number):
    run(examples("docs/guide/use-from-python.md")[number])


def test_the_three_lines_of_the_readme_use_the_engine():
    (example,) = examples("README.md")
    run(example + "\ncalls, passed_on = anyflash.torch.counts()\nassert calls > passed_on\n")
