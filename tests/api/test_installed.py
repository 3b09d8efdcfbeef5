"""`make install` into a prefix, and programs that find the library there, as the guide says."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "use-from-c.md").read_text()


INSTALL = ROOT / "tools" / "install.sh"
BUILD = pathlib.Path(os.environ["ANYFLASH_BUILD"])


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A folder that installs what the build has, and keeps its own manifest."""
    folder = tmp_path_factory.mktemp("build")
    script = (BUILD / "cmake_install.cmake").read_text()
    write = f'file(WRITE "{BUILD}/'
    assert write in script
    (folder / "cmake_install.cmake").write_text(
        script.replace(write, f'file(WRITE "{folder}/'))
    return folder


def install(action, build, *words, **variables):
    return subprocess.run([INSTALL, action, build, *words], capture_output=True, text=True,
                          env={**os.environ, **variables}, timeout=120)


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    """A tree that was moved after its installation."""
    folder = tmp_path_factory.mktemp("installed")
    done = install("install", build, folder / "first")
    assert done.returncode == 0, done.stderr
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
    assert "tools/install.sh check build/any '/opt/a prefix'" in shown
    assert "tools/install.sh install build/any '/opt/a prefix'" in shown


def test_uninstall_removes_what_install_wrote_and_nothing_else(build, tmp_path):
    def tree():
        return {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if not path.is_dir()}

    (tmp_path / "usr/lib/cmake/other").mkdir(parents=True)
    (tmp_path / "usr/lib/cmake/other/file").write_text("other")
    before = tree()
    done = install("install", build, "/usr", DESTDIR=str(tmp_path))
    assert done.returncode == 0 and f"installed in {tmp_path}/usr;" in done.stdout, done
    assert len(tree()) > len(before) + 20
    done = install("uninstall", build, DESTDIR=str(tmp_path))
    assert done.returncode == 0 and tree() == before, done
    assert not [path for path in tmp_path.rglob("anyflash")]
    done = install("uninstall", build, DESTDIR=str(tmp_path))
    assert done.returncode == 1 and "nothing is known to be installed" in done.stderr


def test_install_without_permission_names_sudo_and_prefix(build, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):  # root may write everywhere but into a file
        closed = "/proc/sys/none"
    done = install("check", build, closed)
    assert done.returncode == 3 and "you have no permission to write to" in done.stderr, done
    assert "`sudo make install`, or `make install PREFIX=$HOME/.local`" in done.stderr
    assert install("check", build, tmp_path / "new/folder").returncode == 0


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
