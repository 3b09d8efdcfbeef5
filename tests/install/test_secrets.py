"""User, password and query of an address are neither stored nor printed."""
import json

import pytest

from conftest import make_wheel
from test_plan import Server

SECRETS = ("hidden-name", "hidden-word", "hidden-query")


@pytest.fixture
def shop(quick_place, tmp_path):
    wheel = make_wheel(tmp_path / "shop", name="one", local="cu12", requires=())
    quick_place.server = Server(tmp_path / "shop")
    quick_place.plain = quick_place.server.url(wheel.name.replace("+", "%2B"))
    quick_place.address = quick_place.plain.replace(
        "://", "://hidden-name:hidden-word@") + "?sig=hidden-query"
    yield quick_place
    quick_place.server.shutdown()


def told(done):
    return [secret for secret in SECRETS if secret in done.stdout + done.stderr]


@pytest.mark.parametrize("words", [(), ("--json",), ("--dry-run",), ("--dry-run", "--json")],
                         ids=" ".join)
def test_install_prints_no_secret_of_an_address(shop, words):
    done = shop.run("install", shop.address, "--allow-http", *words)
    assert done.returncode == 0 and told(done) == [], done.all
    assert "addresses are printed without user, password and query" in done.stderr


def test_the_record_of_the_origin_has_no_secret(shop):
    assert shop.run("install", shop.address, "--allow-http").returncode == 0
    text = (shop.site / "one-2.8.3.dist-info/direct_url.json").read_text()
    assert json.loads(text)["url"] == shop.plain


@pytest.mark.parametrize("address", [
    "git+https://hidden-name:hidden-word@host/x.git?hidden-query",
    "https://hidden-name:hidden-word@127.0.0.1:1/x-1-py3-none-any.whl?hidden-query"])
def test_an_error_names_no_secret(quick_place, address):
    done = quick_place.run("install", address)
    assert done.returncode in (2, 3) and told(done) == [], done.all


def test_an_address_without_secrets_is_printed_whole(shop):
    done = shop.run("install", shop.plain, "--allow-http", "--dry-run")
    assert shop.plain in "".join(done.stdout.replace("\\\n", "").split()), done.all
    assert "addresses are printed" not in done.stderr


def test_a_downloaded_file_is_installed_without_its_address(shop, tmp_path):
    done = shop.run("install", shop.address, "--allow-http", "--download-only", tmp_path / "dl")
    assert done.returncode == 0 and "hidden" not in done.all, done.all
    done = shop.run("install", *(tmp_path / "dl").glob("*.whl"), "--from", tmp_path / "dl")
    assert done.returncode == 0, done.all
