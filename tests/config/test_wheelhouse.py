"""The real uv and pip install from what `anyflash wheelhouse` writes."""
import functools
import http.server
import threading

import loopback
import pytest
from conftest import PIP_PYTHON, PROGRAM, PYTHON, TAG, UV

LOCAL = "2.8.3+cu12torch2.8cxx11abiTRUE"


class House:
    """A folder of wheels, its index, and an installer that uses it."""

    def __init__(self, world, installer, way):
        self.world = world
        self.installer = installer
        self.wheels = world.folder / "my wheels"
        self.index = self.wheels / "simple"
        self.requests = []
        self.python = str(world.project / ".venv/bin/python")
        world.run([PYTHON, "-m", "venv", "--without-pip", ".venv"])
        self.server = self.serve() if way == "http" else None

    def serve(self):
        house = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                house.requests.append(self.path)

        self.wheels.mkdir()
        handler = functools.partial(Handler, directory=str(self.wheels))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def url(self):
        if self.server is None:
            return self.index.as_uri() + "/"
        return f"http://127.0.0.1:{self.server.server_address[1]}/simple/"

    def wheel(self, version=LOCAL, *, name="flash_attn", inside=None, more=""):
        return loopback.make_wheel(self.wheels, name, version, TAG, inside=inside or version,
                                   more=more)

    def make(self, *words):
        return self.world.run([PROGRAM, "wheelhouse", str(self.wheels), *words])

    def install(self, *words):
        if self.installer == "uv":
            return self.world.uv("pip", "install", "--python", self.python,
                                 "--default-index", self.url(), *words)
        return self.world.run([PIP_PYTHON, "-m", "pip", "--python", self.python, "install",
                               "--index-url", self.url(), *words])


@pytest.fixture(params=[(installer, way) for installer in ("uv", "pip")
                        for way in ("http", "file")], ids="-".join)
def house(request, world):
    installer, way = request.param
    if installer == "uv" and UV is None:
        pytest.skip("needs uv: pip install uv, on PATH or as $UV")
    if installer == "pip" and PIP_PYTHON is None:
        pytest.skip("needs pip: name an interpreter that has it in $PIP_PYTHON")
    house = House(world, installer, way)
    yield house
    if house.server is not None:
        house.server.shutdown()
        house.server.server_close()


def test_newest_wheel_is_installed(house):
    house.wheel()
    house.wheel("2.8.2")
    assert house.make().code == 0
    done = house.install("flash-attn")
    assert done.code == 0, done
    assert house.world.installed("flash_attn") == [f"flash_attn-{LOCAL}.dist-info"]


def test_a_local_version_can_be_pinned(house):
    house.wheel()
    house.wheel("2.8.3+cu12torch2.9cxx11abiTRUE")
    assert house.make().code == 0
    done = house.install(f"Flash.Attn=={LOCAL}")
    assert done.code == 0, done
    assert house.world.installed("flash_attn") == [f"flash_attn-{LOCAL}.dist-info"]


def test_hashes_are_those_of_the_files(house):
    path = house.wheel()
    assert house.make().code == 0
    placed = house.index / "flash-attn" / path.name
    placed.unlink()
    loopback.make_wheel(house.index / "flash-attn", "flash_attn", LOCAL, TAG,
                        more="Summary: another\n")
    done = house.install("flash-attn")
    if house.installer == "uv" and house.server is None and done.code == 0:
        pytest.skip("of uv's releases this one compares no hashes of files on the disk")
    assert done.code != 0 and "hash" in (done.out + done.err).lower(), done


def test_dependencies_come_from_metadata_files(house):
    if house.server is None:
        pytest.skip("holds over HTTP only: from the disk installers may read the wheel itself")
    path = loopback.make_wheel(house.wheels, "flash_attn", LOCAL, TAG, requires=("einops",))
    house.wheel("0.8.1", name="einops")
    assert house.make().code == 0
    done = house.install("flash-attn")
    assert done.code == 0 and house.world.installed("einops"), done
    asked = [each for each in house.requests if path.name.replace("+", "%2B") in each]
    assert asked[0].endswith(".whl.metadata"), asked


def test_requires_python_is_obeyed(house):
    house.wheel("2.9.0", more="Requires-Python: >=3.99\n")
    house.wheel("2.8.0", more="Requires-Python: >=3.8\n")
    assert house.make().code == 0
    done = house.install("flash-attn")
    assert done.code == 0, done
    assert house.world.installed("flash_attn") == ["flash_attn-2.8.0.dist-info"]


def test_an_official_wheel_is_refused_by_pip(house):
    """Why such wheels are left out by default."""
    house.wheel(inside="2.8.3")
    assert house.make().code == 1
    assert house.make("--inconsistent").code == 0
    done = house.install("flash-attn")
    assert (done.code == 0) == (house.installer == "uv"), done
    if house.installer == "pip":
        assert "inconsistent version" in done.out + done.err, done


def test_an_index_that_moved_still_serves(house):
    if house.server is not None:
        pytest.skip("moves a folder: its server would have to be moved, too")
    house.wheel()
    assert house.make("--output", str(house.world.folder / "house")).code == 0
    house.index = (house.world.folder / "house").rename(house.world.folder / "moved index")
    done = house.install("flash-attn")
    assert done.code == 0 and house.world.installed("flash_attn"), done
