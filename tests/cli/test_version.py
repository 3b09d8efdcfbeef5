"""The version stands in anyflash.h; everything that states one states that."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = pathlib.Path("packaging/version.py")
HEADER = pathlib.Path("include/anyflash/anyflash.h")
PYTHON = pathlib.Path("python/anyflash/_version.py")


def stated(folder=ROOT):
    return subprocess.run(
        [sys.executable, "-B", folder / SCRIPT], text=True, capture_output=True, check=True
    ).stdout.strip()


def test_the_program_the_build_and_the_documents_state_the_headers_version():
    version, anyflash = stated(), pathlib.Path(os.environ["ANYFLASH"])
    said = subprocess.run([anyflash, "--version"], text=True, capture_output=True, check=True)
    assert said.stdout.split()[:2] == ["anyflash", version]
    cache = (anyflash.parent / "CMakeCache.txt").read_text()
    assert f"CMAKE_PROJECT_VERSION:STATIC={version}\n" in cache
    assert f"\nVersion: {version}\n" in (anyflash.parent / "anyflash.pc").read_text()
    manual = subprocess.run([anyflash, "help", "--man"], text=True, capture_output=True)
    assert version in manual.stdout.splitlines()[0] + manual.stdout.splitlines()[1]
    assert f'"{version}"' in (ROOT / PYTHON).read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == version


def test_no_other_build_file_states_a_version():
    for name in ("CMakeLists.txt", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert not re.search(rf"\b{re.escape(stated())}\b", text), name


@pytest.mark.parametrize("new", ["0.2.0", "11.22.33"])
def test_setting_the_version_changes_the_header_and_the_python_package(tmp_path, new):
    for name in (SCRIPT, HEADER, PYTHON):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = stated()
    command = [sys.executable, "-B", tmp_path / SCRIPT, new]
    subprocess.run(command, check=True, capture_output=True)
    assert stated(tmp_path) == new
    assert (tmp_path / PYTHON).read_text().count(f'"{new}"') == 1
    lines = [(folder / HEADER).read_text().splitlines() for folder in (ROOT, tmp_path)]
    different = [(a, b) for a, b in zip(*lines) if a != b]
    assert len(lines[0]) == len(lines[1]) and different
    assert all(b.startswith("#define ANYFLASH_VERSION_") for _, b in different), before


def test_what_is_no_version_is_refused(tmp_path):
    command = [sys.executable, "-B", ROOT / SCRIPT, "1.2"]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 1 and "'1.2' is no version" in done.stderr
