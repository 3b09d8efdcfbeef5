"""One browser and one web server for all tests; a fresh page for each test.

Environment: ANYFLASH, the program to compare with, and ANYFLASH_PAGE (chromium.py).
`tests/run page` sets both.
"""
import json
import pathlib
import sys

import pytest
from chromium import Page, Server, start_driver

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "page"))
NAME = "your text"


@pytest.fixture(scope="session")
def driver():
    started = start_driver()
    yield started
    started.quit()


@pytest.fixture(scope="session")
def server():
    started = Server()
    yield started
    started.stop()


@pytest.fixture
def page(driver, server, request):
    """A fresh page in a window 1280 pixels wide. The test fails if it logs an error. Loading a
    page takes most of the time of a test, so the instances of a parametrized test share one,
    which is cleared before each."""
    shown = Page(driver, server.url)
    shown.resize(1280)
    if shown.run("return window.test") == request.node.originalname:
        shown.clear()
    else:
        shown.open()
        shown.complaints()
        if hasattr(request.node, "callspec"):
            shown.run("window.test = arguments[0]", request.node.originalname)
    yield shown
    assert shown.complaints() == []


@pytest.fixture
def native(tmp_path):
    """Answers of the program as JSON, for a text called NAME."""
    import test_module

    def answer(*words, text=None):
        if text is not None:
            (tmp_path / NAME).write_bytes(text)
        return json.loads(test_module.native(*words, tmp_path=tmp_path, cwd=tmp_path))

    return answer
