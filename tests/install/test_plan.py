"""Carries out plans with a loopback server: the printed steps are exactly those that are
done."""
import hashlib
import http.server
import json
import shlex
import socket
import threading
import time
from urllib.parse import unquote

import pytest

from conftest import PYTHON_TAG, WHEEL_TAG, make_wheel, visible

OFFICIAL = "cu12torch2.8cxx11abiTRUE"
GIVEN = ("--here", "--given", "sm=8.9", "--given", "driver=580.65.06")


# What verify calls of a torch without GPU; every tensor is the same empty object.
TORCH = """
from torch.version import __version__
class Nothing:
    def __getattr__(self, name): return Nothing()
    def __call__(self, *words, **options): return Nothing()
    __add__ = __mul__ = __mod__ = __rshift__ = __sub__ = __truediv__ = __call__
class cuda:
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
def __getattr__(name):
    return Nothing()
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves the files of a folder; `behave(handler, count)` may answer differently."""

    def __init__(self, folder):
        self.folder = folder
        self.behave = None
        self.requests = []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def send_bytes(self, content, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        server = self.server
        server.requests.append(self.headers.get("Range"))
        if server.behave is not None and server.behave(self, len(server.requests)):
            return
        path = server.folder / unquote(self.path.split("/")[-1].split("?")[0])
        if not path.is_file():
            self.send_bytes(b"not here", 404)
            return
        content = path.read_bytes()
        headers = [("ETag", '"%s"' % hashlib.sha256(content).hexdigest()[:8])]
        wanted = self.headers.get("Range")
        if wanted is None:
            self.send_bytes(content, 200, headers)
            return
        first, last = wanted.split("=")[1].split("-")
        first, last = int(first), min(int(last or len(content)), len(content) - 1)
        if first >= len(content):
            self.send_bytes(b"", 416, [("Content-Range", f"bytes */{len(content)}")])
            return
        headers.append(("Content-Range", f"bytes {first}-{last}/{len(content)}"))
        self.send_bytes(content[first:last + 1], 206, headers)


@pytest.fixture
def shop(quick_place, tmp_path):
    """An environment with a torch, a catalog with one wheel that fits it, and the server."""
    place = quick_place
    fake_torch(place)
    folder = tmp_path / "shop"
    wheel = make_wheel(folder, local=OFFICIAL, tag=WHEEL_TAG,
                       requires=("torch",))
    place.server = Server(folder)
    place.wheel = wheel
    place.catalog = tmp_path / "catalog.jsonl"
    url = place.server.url(wheel.name.replace("+", "%2B"))
    place.catalog.write_text("\n".join(json.dumps(row) for row in [
        {"catalog_date": "2026-08-22"},
        {"source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
         "version": "2.8.3", "local": OFFICIAL, "release_tag": "v2.8.3",
         "filename": wheel.name, "url": url, "cuda": "12", "torch": "2.8", "cxx11abi": True,
         "python": PYTHON_TAG, "abi": PYTHON_TAG, "platform": "linux_x86_64",
         "sm": ["8.0", "9.0"], "evidence": "listed"}]) + "\n")
    place.words = ("--catalog", place.catalog, "--prefer", "wheel", *GIVEN)
    yield place
    place.server.shutdown()


def fake_torch(place):
    """A stand-in torch: what the probes read, and enough to be imported."""
    for package, version in (("torch", "2.8.0"), ("einops", "0.8.2")):
        info = place.site / f"{package}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (info / "RECORD").write_text(f"{package}/__init__.py,,\n")
        (info / "INSTALLER").write_text("test")
        (place.site / package).mkdir()
        (place.site / package / "__init__.py").write_text(TORCH if package == "torch" else "")
    (place.site / "torch/version.py").write_text(
        "__version__ = '2.8.0+cu128'\ncuda = '12.8'\nhip = None\ngit_version = 'x'\n")


def install(shop, *words, **options):
    return shop.run("install", "--allow-http", *shop.words, *words, **options)


def test_install_does_what_plan_prints(shop):
    before = shop.tree()
    plan = json.loads(shop.run("plan", *shop.words, "--json").stdout)
    assert plan["decision"] == "wheel"
    done = install(shop, "--json")
    assert done.returncode == 0, done.all
    answer = json.loads(done.stdout)
    assert answer["changed"] and answer["steps"] == plan["steps"]
    origin = json.loads((shop.site / "flash_attn-2.8.3.dist-info/direct_url.json").read_text())
    assert origin["url"] == shop.server.url(shop.wheel.name.replace("+", "%2B"))
    digest = hashlib.sha256(shop.wheel.read_bytes()).hexdigest()
    assert origin["archive_info"]["hashes"]["sha256"] == digest
    again = install(shop)
    assert again.returncode == 0 and "already installed" in again.stdout
    assert shop.run("undo").returncode == 0
    assert shop.tree() == before


def test_dry_run_prints_the_steps_of_plan(shop):
    plan = shop.run("plan", *shop.words).stdout
    steps = install(shop, "--dry-run").stdout
    assert steps.startswith("Steps\n  1. install the wheel from its exact URL\n")
    assert steps in plan


def next_words(done):
    """The wheel and its hash in the command that --download-only prints."""
    words = shlex.split(done.stdout.replace("\\\n", ""))
    at = words.index("--sha256")
    return words[at - 1:at + 2]


def test_files_can_be_taken_to_a_node_without_network(shop, tmp_path):
    folder = tmp_path / "usb"
    before = shop.tree()
    done = install(shop, "--download-only", folder)
    assert done.returncode == 0, done.all
    assert shop.tree() == before
    assert [path.name for path in folder.iterdir()] == [shop.wheel.name]
    shop.server.shutdown()
    shop.server.server_close()
    for words in (shop.words, next_words(done)):
        done = shop.run("install", "--from", folder, "--offline", *words)
        assert done.returncode == 0, done.all
        assert (shop.site / "flash_attn").exists()
        assert shop.run("undo").returncode == 0


def test_a_wheel_with_more_than_its_package_is_not_kept_for_another_node(shop, tmp_path):
    folder = tmp_path / "usb"
    make_wheel(shop.wheel.parent, local=OFFICIAL, tag=WHEEL_TAG, files={"zz.pth": b"import os"})
    done = install(shop, "--download-only", folder)
    assert done.returncode == 1 and "zz.pth" in done.stdout, done.all
    assert list(folder.iterdir()) == []
    assert install(shop, "--download-only", folder, "--allow-content",
                   "zz.pth").returncode == 0


def test_a_file_that_changed_on_its_way_is_refused(shop, tmp_path):
    folder = tmp_path / "usb"
    words = next_words(install(shop, "--download-only", folder))
    make_wheel(folder, local=OFFICIAL, tag=WHEEL_TAG, text="evil = 1\n")
    done = shop.run("install", "--from", folder, *words)
    assert done.returncode == 3 and "not the file in the plan" in done.stderr, done.all


def test_another_wheel_in_the_folder_is_named(shop, tmp_path):
    made = make_wheel(tmp_path / "a $b", version="1.0", requires=())
    done = install(shop, "--from", made.parent, "--arch", "8.6")
    assert done.returncode == 3 and "note: nothing was changed" in done.stderr, done.all
    command = f"`anyflash install '{made}' --python {shop.venv} --arch 8.6`"
    assert command in done.stderr, done.all


def test_an_address_that_does_not_answer_changes_nothing(shop):
    shop.server.shutdown()
    shop.server.server_close()
    done = install(shop)
    assert done.returncode == 3 and "note: nothing was changed" in done.stderr, done.all
    assert "hint: where there is a network" in done.stderr


def test_404_changes_nothing(shop):
    before = shop.tree()
    shop.wheel.unlink()
    done = install(shop)
    assert done.returncode == 3 and "404" in done.stderr
    assert shop.tree() == before


def test_a_page_in_place_of_a_wheel_changes_nothing(shop):
    before = shop.tree()
    shop.wheel.write_text("<!DOCTYPE html><html>sign in</html>")
    done = install(shop)
    assert done.returncode == 3, done.all
    assert shop.tree() == before


def send_begin(handler, content, count):
    """Answers with the headers of a whole file and its first `count` bytes."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.send_header("ETag", '"%s"' % hashlib.sha256(content).hexdigest()[:8])
    handler.end_headers()
    handler.wfile.write(content[:count])
    handler.wfile.flush()


def test_a_cut_connection_goes_on_where_it_stopped(shop):
    content = shop.wheel.read_bytes()

    def cut(handler, count):
        if count > 1:
            return False
        send_begin(handler, content, len(content) // 2)
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True
    shop.server.behave = cut
    done = install(shop)
    assert done.returncode == 0, done.all
    assert any(one and one.startswith("bytes=") for one in shop.server.requests)


def test_a_slow_server_is_waited_for(shop):
    content = shop.wheel.read_bytes()

    def drip(handler, count):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        for i in range(10):
            handler.wfile.write(content[len(content) * i // 10:len(content) * (i + 1) // 10])
            handler.wfile.flush()
            time.sleep(0.3)
        return True
    shop.server.behave = drip
    done = install(shop)
    assert done.returncode == 0, done.all
    assert len(shop.server.requests) == 1


def test_redirects_are_followed_and_bounded(shop):
    def redirect(handler, count):
        if "again" in handler.path and "loop" not in handler.path:
            return False
        place = "/loop/again" if loop else "/again/" + handler.path.split("/")[-1]
        handler.send_bytes(b"", 302, [("Location", place + ("" if not loop else str(count)))])
        return True
    loop = True
    shop.server.behave = redirect
    assert install(shop).returncode == 3
    loop = False
    done = install(shop)
    assert done.returncode == 0, done.all


def test_http_is_refused_unless_allowed(shop):
    done = shop.run("install", *shop.words)
    assert done.returncode == 3 and "http" in done.stderr
    assert not (shop.site / "flash_attn").exists()


def test_an_address_by_hand_with_its_hash(shop):
    digest = hashlib.sha256(shop.wheel.read_bytes()).hexdigest()
    url = shop.server.url(shop.wheel.name.replace("+", "%2B"))
    done = shop.run("install", url, "--allow-http", "--sha256", "0" * 64)
    assert done.returncode == 3, done.all
    assert not (shop.site / "flash_attn").exists()
    done = shop.run("install", url, "--allow-http", "--sha256", digest)
    assert done.returncode == 0, done.all


def test_ctrl_c_while_downloading_changes_nothing(shop):
    import signal
    content = shop.wheel.read_bytes()
    begun, ended = threading.Event(), threading.Event()

    def slow(handler, count):
        if count > 1:
            return False
        send_begin(handler, content, 200)
        begun.set()
        ended.wait(60)
        return True
    before = visible(shop.tree())
    shop.server.behave = slow
    child = shop.start("install", "--allow-http", *shop.words)
    assert begun.wait(60)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    ended.set()
    assert child.returncode == 130, out + err
    assert visible(shop.tree()) == before and shop.own() == []
    assert install(shop).returncode == 0


def test_the_distributions_own_python_is_refused_with_the_reason(shop):
    import subprocess
    done = subprocess.run([shop.command("x")[0], "install", str(shop.wheel), "--python",
                           "/usr/bin/python3"], capture_output=True, text=True,
                          env=shop.environment(), cwd=shop.root)
    assert done.returncode == 1, done
    assert "its distribution manages it" in done.stdout and "venv" in done.stdout


def test_a_plan_without_a_wheel_installs_nothing_and_says_so(quick_place):
    fake_torch(quick_place)
    info = quick_place.site / "anyflash-0.0.9.dist-info"  # is used as it is
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anyflash\nVersion: 0.0.9\n")
    done = quick_place.run("install", "--prefer", "engine")
    assert done.returncode == 1 and "needs nothing to be installed" in done.stdout, done.all


def test_plan_names_the_option_that_lets_install_add_torch(quick_place):
    """Without torch the first step installs it, which install does only when allowed."""
    said = quick_place.run("plan", "--prefer", "engine")
    assert "`anyflash install --allow-torch-change any --prefer engine" in said.stdout, said.all
    done = quick_place.run("install", "--prefer", "engine")
    assert done.returncode == 1, done.all
    assert "would install or change torch" in done.stdout, done.all
    assert "--allow-torch-change any" in done.stdout, done.all
