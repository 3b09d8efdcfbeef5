"""The requirements of a wheel: read from its METADATA before anything is downloaded."""
import hashlib
import json
import os

import pytest

from conftest import make_wheel
from test_plan import Server


def steps(done):
    assert done.returncode == 0, done.all
    return [need for step in json.loads(done.stdout)["steps"] for need in step["requirements"]]


def test_only_requirements_meant_for_this_system_are_in_the_plan(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", requires=(
        "alpha>=1.2",
        "beta ; sys_platform == 'win32'",
        "gamma (>=2) ; python_version >= '3.0' and platform_system == 'Linux'",
        "delta ; extra == 'test'",
        "epsilon ; python_version < '3'",
        "zeta ; (os_name == 'nt' or implementation_name == 'cpython')"))
    done = quick_place.run("install", wheel, "--dry-run", "--json")
    assert steps(done) == ["alpha>=1.2", "gamma>=2", "zeta"]


def test_a_marker_that_cannot_be_decided_is_told(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", requires=("alpha ; platform_release > '5'",))
    done = quick_place.run("install", wheel, "--dry-run", "--json")
    assert steps(done) == []
    assert "the wheel requires alpha under a condition" in done.stderr


def test_what_is_there_stays_and_a_broken_window_is_told(quick_place, tmp_path):
    place = quick_place
    old = make_wheel(tmp_path, name="alpha", version="1.0", requires=())
    assert place.run("install", old).returncode == 0
    wheel = make_wheel(tmp_path, name="one", requires=("alpha>=2",))
    done = place.run("install", wheel, "--dry-run", "--json")
    assert steps(done) == []
    assert "the wheel requires alpha>=2, but 1.0 is installed and stays" in done.stderr


@pytest.mark.parametrize("text, says", [
    ('no-index = true\nfind-links = ["{shop}"]\n', True), ("offline = true\n", False)])
def test_a_file_that_chooses_the_index_for_uv_is_told(quick_place, tmp_path, text, says):
    place = quick_place
    if place.installer != "uv":
        pytest.skip("needs uv: pip install uv, on PATH")
    make_wheel(tmp_path / "shop", name="alpha", version="1.2", requires=())
    wheel = make_wheel(tmp_path, name="one", requires=("alpha>=1.2",))
    settings = place.root / "uv.toml"
    settings.write_text(text.format(shop=tmp_path / "shop"))
    done = place.run("install", wheel)
    assert (f"uv takes the package index from '{settings}'" in done.stderr) == says, done.all
    assert ((place.site / "alpha").exists()) == says, done.all


def test_a_name_that_would_be_an_option_is_none(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", requires=("-rrequirements", "--index-url=x"))
    assert steps(quick_place.run("install", wheel, "--dry-run", "--json")) == []


@pytest.mark.parametrize("need", ["file:///tmp/x", "git+https://h/r", "http://h/x.whl", "x/",
                                  "x.tar.gz"])
def test_an_address_or_a_file_is_no_requirement(quick_place, tmp_path, need):
    wheel = make_wheel(tmp_path, name="one", requires=(need, "alpha"))
    done = quick_place.run("install", wheel, "--dry-run", "--json")
    assert steps(done) == ["alpha"]
    assert f"the wheel requires '{need}', which is not a name" in done.stderr


def test_a_version_in_the_name_that_is_a_lie_is_told_before_anything_is_done(
        quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", version="1.0", local="cu12")
    lie = wheel.with_name("one-2.0-py3-none-any.whl")
    wheel.rename(lie)
    done = quick_place.run("install", lie, "--dry-run")
    assert done.returncode == 3, done.all
    assert "versions differ: 1.0 in its metadata, 2.0 in its file name" in done.stderr


@pytest.fixture
def far(quick_place, tmp_path):
    """A wheel of one megabyte at a URL."""
    quick_place.wheel = make_wheel(
        tmp_path / "shop", name="one", requires=("alpha>=1.2", "beta ; os_name == 'nt'"),
        files={"one/large.bin": os.urandom(1 << 20)})
    quick_place.server = Server(tmp_path / "shop")
    yield quick_place
    quick_place.server.shutdown()


def test_a_wheel_at_an_address_is_downloaded_for_its_needs_and_its_hash(far):
    url = far.server.url(far.wheel.name)
    done = far.run("install", url, "--allow-http", "--dry-run", "--json")
    assert steps(done) == ["alpha>=1.2"]
    assert hashlib.sha256(far.wheel.read_bytes()).hexdigest() in done.stdout
    assert len(far.server.requests) == 1


def test_an_address_that_is_not_there_is_told_before_anything_is_done(far):
    done = far.run("install", far.server.url("two-1.0-py3-none-any.whl"), "--allow-http",
                   "--dry-run")
    assert done.returncode == 3 and "404" in done.stderr, done.all
