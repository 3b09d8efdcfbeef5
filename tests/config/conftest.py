"""A project, an index and the real uv and pip, to test what `anyflash config` writes.

`tests/run config` prepares what is needed: uv on PATH or in $UV, pip 26 in $PIP_PYTHON's
environment. Tests that lack one of these are skipped.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import loopback
import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("ANYFLASH", "anyflash")
UV = os.environ.get("UV") or shutil.which("uv")
# The base interpreter: with that of an environment, uv would recreate the project's environment
# at each run.
ASK = "import os, sys; print(os.path.realpath(sys._base_executable), sys.version_info.minor)"
PYTHON, MINOR = subprocess.run([os.environ.get("CONFIG_PYTHON") or sys.executable, "-c", ASK],
                               capture_output=True, text=True, check=True).stdout.split()
MINOR = int(MINOR)
PIP_PYTHON = os.environ.get("PIP_PYTHON")
TEMPLATE = HERE.parents[1] / "examples" / "machines" / "rtx4090-torch2.8.json"
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_x86_64"
VERSION = "2.8.3"
SDIST = "2.8.3.post2"


class Done:
    def __init__(self, words, done):
        self.words = words
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def __repr__(self):
        return f"{self.words}: exit {self.code}\n{self.out}\n{self.err}"


class World:
    """A project folder, and the commands that are run in it."""

    def __init__(self, folder):
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.index = loopback.Index(folder / "index")
        self.rows = []
        self.records = []
        self.fill()

    def fill(self):
        for name, versions in {"torch": ["2.7.1", "2.8.0", "2.9.0", "2.10.0"],
                               "einops": ["0.8.1"]}.items():
            for version in versions:
                loopback.make_wheel(self.index.folder(name), name, version, "py3-none-any")
        loopback.make_sdist(self.index.folder("flash-attn"), SDIST)

    def wheel(self, *, minor=MINOR, honest=False, arch="x86_64", torch="2.8",
              version=VERSION):
        """Publishes a flash-attn wheel in a release, with a row of the catalog; its path."""
        tag = f"cp3{minor}-cp3{minor}-linux_{arch}"
        local = f"cu12torch{torch}cxx11abiTRUE"
        path = loopback.make_wheel(
            self.index.folder("release"), "flash_attn", f"{version}+{local}", tag,
            inside=f"{version}+{local}" if honest else version, requires=("torch", "einops"))
        self.rows.append(loopback.catalog_row(self.index.url(path), path.name, version, local,
                                              tag, honest=honest, torch=torch))
        return path

    def machine(self, *, minor=MINOR, torch="2.8.0+cu128", arch="x86_64"):
        path = self.folder / f"machine-{len(self.records)}.json"
        self.records.append(loopback.machine(path, minor=minor, torch=torch,
                                             template=TEMPLATE))
        if arch != "x86_64":
            path.write_text(path.read_text().replace("x86_64", arch))
        return path

    def pyproject(self, text=None, python=f">=3.{MINOR},<3.{MINOR + 1}"):
        path = self.project / "pyproject.toml"
        path.write_text(text or f'[project]\nname = "demo"\nversion = "0.1.0"\n'
                        f'requires-python = "{python}"\n'
                        'dependencies = ["torch", "flash-attn"]\n')
        return path

    def config(self, *words):
        catalog = loopback.catalog(self.folder / "catalog.jsonl", self.rows)
        machines = [word for path in self.records for word in ("-m", str(path))]
        return self.run([PROGRAM, *words, "--project", str(self.project), "--catalog",
                         str(catalog), *machines])

    def environment(self):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder / "home"),
                "UV_CACHE_DIR": str(self.folder / "uv-cache"), "UV_NO_CONFIG": "0",
                "UV_DEFAULT_INDEX": f"{self.index.address}/simple/", "UV_PYTHON": PYTHON,
                "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1",
                "SSL_CERT_FILE": str(self.index.certificate),
                "PIP_CERT": str(self.index.certificate), "no_proxy": "127.0.0.1",
                "PIP_CACHE_DIR": str(self.folder / "pip-cache"),
                "PIP_INDEX_URL": f"{self.index.address}/simple/",
                "PIP_CONFIG_FILE": "/dev/null",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(self, words, **more):
        done = subprocess.run(words, cwd=self.project, capture_output=True, text=True,
                              timeout=300, env={**self.environment(), **more})
        return Done(words, done)

    def uv(self, *words, **more):
        return self.run([UV, *words], **more)

    def uv_version(self):
        words = self.uv("--version").out.split()
        return tuple(int(part) for part in words[1].split(".")[:2])

    def installed(self, name):
        """The dist-info folders of a package in the project's environment."""
        return sorted(path.name for path in
                      self.project.glob(f".venv/lib/python3*/site-packages/{name}-*.dist-info"))


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.index.close()


@pytest.fixture
def uv_world(world):
    if UV is None:
        pytest.skip("needs uv: pip install uv, on PATH or as $UV")
    return world
