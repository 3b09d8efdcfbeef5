"""`make install` into a prefix, and programs that find the library there, as the guide says."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "use-from-c.md").read_text()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """A tree that was moved after its installation."""
    folder = tmp_path_factory.mktemp("installed")
    command = ["cmake", "--install", os.environ["ANYFLASH_BUILD"], "--prefix", folder / "first"]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "first").rename(folder / "a prefix")


@pytest.fixture
def project(tmp_path):
    shutil.copy(ROOT / "examples" / "attend.c", tmp_path)
    return tmp_path


def output(command, folder, **variables):
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        shell=isinstance(command, str), timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def library_folder(prefix):
    return str(next(prefix.rglob("libanyflash.so")).parent)


def test_make_install_writes_to_its_prefix():
    make = ["make", "-n", "install", "PRESET=any"]
    shown = output([*make, "PREFIX=/opt/a prefix"], ROOT)
    assert "cmake --install build/any --prefix '/opt/a prefix'" in shown
    assert "--prefix" not in output([*make, "PREFIX="], ROOT)


def test_a_program_finds_the_library_with_pkg_config(prefix, project):
    if shutil.which("pkg-config") is None:
        pytest.skip("needs pkg-config")
    (project / "prefix").symlink_to(prefix)
    library = library_folder(project / "prefix")
    (line,) = re.findall(r"^cc .*pkg-config.*$", GUIDE, re.M)
    output(line, project, PKG_CONFIG_PATH=f"{library}/pkgconfig")
    assert output(["./attend"], project, LD_LIBRARY_PATH=library)


def test_a_program_finds_the_library_with_cmake(prefix, project):
    (text,) = re.findall(r"```cmake\n(.*?)```", GUIDE, re.S)
    (project / "CMakeLists.txt").write_text(text)
    output(["cmake", f"-DCMAKE_PREFIX_PATH={prefix}", "-S", ".", "-B", "build"], project)
    output(["cmake", "--build", "build"], project)
    assert output(["build/attend"], project)
