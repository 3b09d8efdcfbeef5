"""`anyflash config uv --write` fetches the wheel that uv needs beside the project."""
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import time
import tomllib
import zipfile

import pytest

from server import File

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
MACHINE = (pathlib.Path(__file__).resolve().parents[2] / "examples" / "machines"
           / "rtx4090-torch2.8.json")
LOCAL = "cu12torch2.8cxx11abiTRUE"
TAG = "cp312-cp312-linux_x86_64"
FILE = f"flash_attn-2.8.3+{LOCAL}-{TAG}.whl"
PLAIN = f"wheels/flash_attn-2.8.3-{TAG}.whl"
PROJECT = '[project]\nname = "demo"\nversion = "0.1"\nrequires-python = ">=3.12,<3.13"\n'


def wheel(inside="2.8.3", name="flash_attn", extension=None, padding=0):
    """A wheel like the official ones: its metadata lacks the local part of its file name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("flash_attn/__init__.py", "")
        archive.writestr("flash_attn/padding", os.urandom(padding))
        if extension is not None:
            archive.writestr("flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", extension)
        archive.writestr(f"{name}-{inside}.dist-info/METADATA",
                         f"Metadata-Version: 2.1\nName: {name}\nVersion: {inside}\n"
                         "Requires-Dist: torch\nRequires-Dist: einops\n\n")
    return content.getvalue()


class Project:
    def __init__(self, folder, server):
        self.folder = folder / "project"
        self.folder.mkdir()
        self.home = folder / "home"
        self.server = server
        self.toml = self.folder / "pyproject.toml"
        self.toml.write_text(PROJECT)

    def address(self, path=""):
        return f"http://127.0.0.1:{self.server.server.server_address[1]}/{path}"

    def publish(self, content, sha256=None, honest=False, **how):
        self.server.files[FILE.replace("+", "%2B")] = File(content, **how)
        row = {"source": "a/b", "package": "flash_attn", "version": "2.8.3", "local": LOCAL,
               "filename": FILE, "url": self.address(FILE.replace("+", "%2B")),
               "cuda": "12", "torch": "2.8", "cxx11abi": True, "cxx11abi_effective": True,
               "python": "cp312", "abi": "cp312", "platform": "linux_x86_64",
               "glibc_min": "2.17", "sm": ["8.0"], "metadata_has_local": honest,
               "evidence": "listed", "sha256": sha256}
        (self.home.parent / "catalog.jsonl").write_text(json.dumps(row))

    def words(self, *more):
        return [PROGRAM, "config", "uv", "--write", "--allow-http", "-m", str(MACHINE),
                "--catalog", str(self.home.parent / "catalog.jsonl"), *more]

    def environment(self):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "no_proxy": "127.0.0.1"}

    def write(self, *more):
        return subprocess.run(self.words(*more), cwd=self.folder, env=self.environment(),
                              capture_output=True, text=True, timeout=120)

    def is_untouched(self):
        return (self.toml.read_text() == PROJECT
                and [path.name for path in self.folder.iterdir()] == ["pyproject.toml"])

    def cached(self):
        return [path for path in self.home.rglob("*.whl") if path.is_file()]


@pytest.fixture
def project(tmp_path, server):
    return Project(tmp_path, server)


def test_the_wheel_is_fetched_placed_and_locked(project):
    content = wheel()
    digest = hashlib.sha256(content).hexdigest()
    project.publish(content, digest)
    done = project.write("--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["written"] and answer["pins"][0]["sha256"] == digest
    assert (project.folder / PLAIN).read_bytes() == content
    assert f'path = "{PLAIN}"' in project.toml.read_text()
    assert project.cached() == []


def test_a_second_run_fetches_nothing(project):
    project.publish(wheel())
    assert project.write().returncode == 0
    count = len(project.server.requests)
    done = project.write()
    assert done.returncode == 0 and "nothing had to change" in done.stdout, done.stderr
    assert len(project.server.requests) == count


def test_without_write_nothing_is_fetched(project):
    project.publish(wheel())
    words = [word for word in project.words() if word != "--write"]
    done = subprocess.run(words, cwd=project.folder, env=project.environment(),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "`--write` downloads it" in done.stderr, done.stderr
    assert project.server.requests == [] and project.is_untouched()


def test_a_wheel_that_agrees_with_its_name_stays_at_its_address(project):
    project.publish(wheel(inside=f"2.8.3+{LOCAL}"))
    assert project.write().returncode == 0
    assert 'url = "http' in project.toml.read_text()
    assert not (project.folder / "wheels").exists() and project.cached() == []


@pytest.mark.parametrize("what, sentence", [
    ({"sha256": "0" * 64}, "SHA-256"),
    ({"content": wheel(inside="2.8.2")}, "2.8.2"),
    ({"content": wheel(name="flash_other")}, "flash_other"),
    ({"content": b"<!DOCTYPE html><html>login</html>"}, "a web page"),
    ({"content": wheel()[:-40]}, ""),
    ({"status": 404}, "404"),
    ({"cut_after": 300, "ranges": False, "content": wheel(padding=5000)}, ""),
])
def test_a_failure_leaves_the_project_as_it_was(project, what, sentence):
    content = what.pop("content", None) or wheel()
    project.publish(content, **what)
    done = project.write()
    assert done.returncode == 3 and sentence in done.stderr, done.stderr
    assert "the project is unchanged" in done.stderr
    assert done.stderr.count("error:") == 1 and project.is_untouched()
    assert project.cached() == []


def test_offline_it_says_what_to_do(project):
    project.publish(wheel())
    done = project.write("--offline")
    assert done.returncode == 1 and "--from DIR" in done.stderr, done.stderr
    assert project.is_untouched() and project.server.requests == []


def test_a_folder_that_cannot_be_made_is_named(project):
    project.publish(wheel())
    (project.folder / "wheels").write_text("a file")
    done = project.write()
    assert done.returncode == 3 and "wheels" in done.stderr, done.stderr
    assert project.toml.read_text() == PROJECT


def test_what_the_project_excludes_is_not_fetched(project):
    project.publish(wheel())
    project.toml.write_text(PROJECT.replace(">=3.12,<3.13", ">=3.13"))
    assert project.write().returncode == 1 and project.server.requests == []


def test_an_interrupt_leaves_the_project_as_it_was(project):
    content = wheel(padding=300000)
    project.publish(content, pause_after=100000, pause_s=20)
    running = subprocess.Popen(project.words(), cwd=project.folder, env=project.environment(),
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not list(project.home.rglob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert project.is_untouched()
    project.publish(content)
    assert project.write().returncode == 0
    assert (project.folder / PLAIN).read_bytes() == content


@pytest.fixture
def broken(tmp_path):
    """The bytes of an extension that needs a function which no torch has."""
    for name, code, more in (
            ("libtorch.so", "int nothing;", ["-Wl,-soname,libtorch.so"]),
            ("one.so", "void _ZN2at9no_such_fEv(void); void *PyInit_flash_attn_2_cuda(void)"
             "{ _ZN2at9no_such_fEv(); return 0; }",
             ["-Wl,--no-as-needed", f"-L{tmp_path}", "-ltorch"])):
        (tmp_path / "one.c").write_text(code)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / name, tmp_path / "one.c",
                        *more], check=True)
    return (tmp_path / "one.so").read_bytes()


def test_a_wheel_that_would_not_load_is_refused(project, broken):
    project.publish(wheel(extension=broken))
    done = project.write()
    assert done.returncode == 1 and "would not load" in done.stderr, done.stderr
    assert "no_such_f" in done.stderr and project.is_untouched() and project.cached() == []


def test_a_file_for_another_torch_under_the_plain_name_is_fetched_anew(project, broken):
    """As after a change of torch in the project: the plain name does not say which."""
    content = wheel()
    project.publish(content)
    (project.folder / "wheels").mkdir()
    (project.folder / PLAIN).write_bytes(wheel(extension=broken))
    done = project.write()
    assert done.returncode == 0, done.stderr
    assert (project.folder / PLAIN).read_bytes() == content and project.cached() == []
