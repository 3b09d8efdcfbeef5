"""The page for everyone: accessibility rules, widths, hostile texts."""
import pathlib
import sys

import pytest
import test_module
from test_page import LOG, WINDOWS, WORDS, choose_all

AXE = "axe_playwright_python/axe.min.js"
MARKUP = ("<script>document.title = 'owned'</script>"
          "<img src=x onerror=\"document.title='owned'\"></textarea><svg onload=alert(1)>")


def axe_source():
    [found] = [path for folder in sys.path for path in pathlib.Path(folder).glob(AXE)]
    return found.read_text()


def violations(page):
    page.run(axe_source())
    found = page.driver.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"]][:5]) for one in found]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("content", ["", WINDOWS, LOG], ids=["empty", "output", "log"])
def test_accessibility_rules_hold(page, content, dark, width):
    page.resize(width, dark=dark)
    if content:
        page.paste(content)
    page.wait("document.getElementById('matrix').dataset.complete")
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert violations(page) == []


@pytest.mark.parametrize("width", [320, 360, 768, 1280, 1920, 2560])
def test_nothing_is_wider_than_the_window(page, width):
    page.paste(WINDOWS)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    page.resize(width)
    assert page.run("return document.documentElement.scrollWidth") <= width


def test_everything_can_be_reached_with_the_keyboard(page):
    choose_all(page)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    reached = page.run("""
        const focusable = [...document.querySelectorAll(
            'a, button, select, textarea, input, summary, [tabindex="0"]')].filter(
            one => one.offsetParent !== null || one.type === 'radio');
        return focusable.filter(one => { one.focus(); return document.activeElement !== one; })
            .map(one => one.outerHTML.slice(0, 100));""")
    assert reached == []


def test_markup_is_shown_as_text(page):
    text = WINDOWS.replace("NVIDIA GeForce RTX 3060", MARKUP) + MARKUP
    page.paste(text)
    page.paste(LOG + MARKUP + "\n" + LOG.replace("GLIBC_2.32", "GLIBC_2.32 " + MARKUP))
    assert page.driver.title.startswith("anyflash")
    assert page.run("return document.querySelectorAll('img, svg, body script').length") == 0
    assert "<script>" in page.text("#diagnosis-body")


def test_control_characters_and_invalid_bytes_are_named(page, tmp_path):
    path = tmp_path / "hostile.log"
    bad = b"\x1b[31m\x00\x07\xff\xfe\xc3ImportError"
    path.write_bytes(LOG.encode().replace(b"ImportError", bad)
                     + b"\xe2\x80\xae reversed \x1b]0;title\x07\n" * 3 + bytes(range(256)) * 4)
    page.give_file(path)
    shown = page.text("#diagnosis-body")
    assert "\\x00" in shown and "\x1b" not in shown and "\u202e" not in shown
    assert page.run("return model.paste.kind") == "log"


def test_a_file_of_100_mb_is_read_and_the_page_stays_alive(page, tmp_path):
    path = tmp_path / "huge.log"
    line = b"[1234/9999] c++ -O3 -o build/temp/flash_api.o -c csrc/flash_attn/flash_api.cpp\n"
    path.write_bytes(line * (100_000_000 // len(line)) + LOG.encode())
    page.run("""
        window.longest = 0;
        let last = performance.now();
        window.beat = setInterval(() => { const now = performance.now();
            window.longest = Math.max(window.longest, now - last); last = now; }, 10);""")
    page.give_file(path)
    page.run("clearInterval(window.beat)")
    assert "GLIBC_2.32" in page.text("#diagnosis-body")
    assert page.run("return document.getElementById('text').value.length") < 250_000
    assert page.run("return window.longest") < 2000


def test_random_texts_end_in_an_answer(page):
    for text in ["\0" * 1000, "{", "{\"schema\": \"anyflash-machine/1\"", "[" * 100000,
                 "=" * 5000, "torch==" * 1000, "\u202e" * 100,
                 "PyTorch version: " + "9" * 10000]:
        page.paste(text)
        assert page.text("#answer-title")
