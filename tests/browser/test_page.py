"""What people do with the page: paste, choose, copy, link, go back, print, go offline."""
import json
import re

import pytest
from chromium import Page, Server
from conftest import NAME, ROOT
from selenium.webdriver.common.keys import Keys

PASTED = sorted((ROOT / "tests/machine/pasted").glob("*.txt"))
WINDOWS = (ROOT / "tests/machine/pasted/collect_env_windows.txt").read_text()
LINUX = (ROOT / "tests/machine/pasted/collect_env_8x_a100.txt").read_text()
LOG = (b"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
       b"    import flash_attn\nImportError: /lib/x86_64-linux-gnu/libc.so.6: version "
       b"`GLIBC_2.32' not found (required by "
       b"flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)\n"
       ).decode()
CHOSEN = {"os": "linux", "arch": "x86_64", "python": "3.12", "torch": "2.9.1",
          "torch_cuda": "cu128", "gpu": "RTX 4090", "libc": "glibc 2.35", "driver": "580"}
WORDS = ["gpu=RTX 4090", "os=linux", "python=3.12", "driver=580", "libc=glibc 2.35",
         "arch=x86_64", "torch=2.9.1+cu128"]


def given(words):
    return [part for word in words for part in ("--given", word)]


def without_name(plan):
    """The program has a different name for a machine without a record."""
    return {key: value for key, value in plan.items() if key != "machines"}


def without_sources(plan):
    """What is assumed on the page is given to the program."""
    text = json.dumps(without_name(plan))
    return json.loads(re.sub(r"--given [a-z]+=[^ \":;,)]+", "assumed", text))


def choose_all(page):
    for key, value in CHOSEN.items():
        page.choose(f"fact-{key}", value)


@pytest.mark.parametrize("path", PASTED, ids=lambda path: path.stem)
def test_a_pasted_text_gets_the_answer_of_the_program(page, native, path):
    page.paste(path.read_text())
    assumed = [f"{key}={value}" for key, value in page.run("return model.assumed").items()
               if key != "python"] # of which the program says that it is assumed
    expected = native("plan", "--json", "--machine", NAME, *given(assumed),
                      text=path.read_bytes())
    assert page.run("return model.paste.kind") in ("output", "log")
    if page.run("return model.paste.kind") == "output":
        assert without_sources(page.plan()) == without_sources(expected)
        if expected["decision"] is not None:
            assert page.text("#answer-title") == expected["headline"]


def test_a_record_of_the_program_gets_its_answer(page, native):
    record = (ROOT / "examples/machines/rtx4090-torch2.8.json").read_bytes()
    page.paste(record.decode())
    assert page.run("return model.paste.kind") == "record"
    assert page.plan() == native("plan", "--json", "--machine", NAME, text=record)
    assert page.commands() == [step["command"] for step in page.plan()["steps"]
                               if step["command"]]


def test_menus_show_what_the_text_says_and_from_which_line(page):
    page.paste(WINDOWS)
    assert page.run("return document.getElementById('fact-torch').value") == "2.6.0"
    assert page.text("#fact-torch-source") == f"line 4 of {NAME}"
    assert page.run("return document.getElementById('fact-libc').value") == ""


def test_choices_by_hand_get_the_answer_of_the_program(page, native):
    choose_all(page)
    assert page.text("#fact-torch-source") == "chosen"
    assert without_name(page.plan()) == without_name(native("plan", "--json", *given(WORDS)))


def test_every_menu_takes_every_choice(page):
    menus = page.run("return [...document.querySelectorAll("
                     "'#choices select[data-key], #package')]"
                     ".map(menu => [menu.id, [...menu.options].map(one => one.value)])")
    assert [name for name, _ in menus] == [f"fact-{key}" for key in (
        "os", "python", "torch", "torch_cuda", "driver", "libc", "arch")] + ["package"]
    for name, values in menus:
        assert len(values) > 1
        for value in (values[-1], values[1], values[0]):
            page.choose(name, value)
            assert page.run(f"return document.getElementById('{name}').value") == value
            assert "error" not in page.plan()


def test_a_choice_counts_more_than_the_text_and_says_so(page, native):
    page.paste(WINDOWS)
    page.choose("fact-torch", "2.8.0")
    page.choose("fact-torch_cuda", "cu128")
    assert page.text("#fact-torch-source") == f"chosen; {NAME} says 2.6.0"
    assert page.plan() == native("plan", "--json", "--machine", NAME,
                                 *given(["torch=2.8.0+cu128"]), text=WINDOWS.encode())
    page.choose("fact-torch", "")
    assert page.plan()["facts"]["torch.version"] is None


def test_other_packages_can_be_asked_for(page, native):
    choose_all(page)
    page.choose("package", "flash_attn_3")
    assert without_name(page.plan()) == without_name(
        native("plan", "--json", "--package", "flash_attn_3", *given(WORDS)))


def test_tabs_change_the_installer_and_the_quoting(page):
    page.paste(WINDOWS)
    assert page.run("return shellInUse()") == "powershell"
    assert page.commands()[0].startswith("python -m pip install --no-deps https://")
    page.click("#installer-uv")
    assert page.commands()[0].startswith("uv pip install")
    page.click("#installer-pip")
    assert page.commands()[0].startswith("python -m pip install --no-deps https://")
    page.click("#installer-portable")
    assert page.commands()[0].startswith(".\\python_embeded\\python.exe -m pip install")
    page.click("#shell-cmd")
    assert "-c \"import torch, flash_attn; " in page.commands()[-1]
    page.click("#shell-command")
    assert page.commands()[-1].startswith("'.\\python_embeded\\python.exe' -c 'import torch")
    page.click("#installer-conda")
    assert page.commands()[0].startswith("python -m pip install")
    assert "conda-forge" in page.text("#answer-body .steps")


def test_copy_buttons_copy_their_command(page):
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    choose_all(page)
    for number, command in enumerate(page.commands()):
        page.run("document.querySelectorAll('#answer-body .steps button.copy')[arguments[0]]"
                 ".click()", number)
        page.wait("document.querySelectorAll('#answer-body .steps button.copy')[arguments[0]]"
                  ".textContent === 'Copied'", number)
        assert page.driver.execute_async_script(
            "navigator.clipboard.readText().then(arguments[0])") == command


def test_a_log_shows_cause_evidence_and_next_step(page, native):
    page.paste(LOG)
    expected = native("doctor", "--json", NAME, text=LOG.encode())
    [best, *_] = expected["causes"]
    assert page.text("#diagnosis-title").lower().endswith(best["title"].lower())
    assert best["fix"].split("`")[0] in page.text("#diagnosis-body h3 + p")
    assert page.text("#diagnosis-body li:not(.program) .command code") == best["next"]
    marked = page.run("return [...document.querySelectorAll('#diagnosis-body > .log .marked')]"
                      ".map(one => one.textContent)")
    assert any("GLIBC_2.32" in line for line in marked)
    assert page.text("#recognised") == "Recognised: a log."


FILLER = "[1/73] c++ -O3 -c csrc/flash_attn/flash_api.cpp -o build/flash_api.o\n" * 10_000


def type_into_box(page, *keys):
    before = page.run("return model.generation")
    page.driver.find_element("id", "text").send_keys(*keys)
    page.wait(f"model.generation > {before}")
    page.settle()


def box(page):
    return page.run("return document.getElementById('text').value")


def test_the_beginning_of_a_long_text_can_be_edited(page):
    page.paste(FILLER + LOG)
    assert FILLER.startswith(box(page)) and 100_000 < len(box(page)) < 250_000
    assert "0.5 MB" in page.text("#rest")
    assert not page.run("return document.getElementById('rest').hidden")
    shown = page.run("return document.querySelector('#diagnosis .marked .number').textContent")
    page.run("const box = document.getElementById('text');"
             "box.focus(); box.setSelectionRange(0, 0)")
    type_into_box(page, "two\nmore lines\n")
    assert box(page).startswith("two\nmore lines\n[1/73]")
    assert "GLIBC_2.32" in page.text("#diagnosis-body")
    moved = page.run("return document.querySelector('#diagnosis .marked .number').textContent")
    assert int(moved) == int(shown) + 2


def test_the_rest_of_a_long_text_can_be_left_out(page):
    page.paste(LOG + FILLER)
    assert "GLIBC_2.32" in page.text("#diagnosis-body")
    page.paste(FILLER + LOG)
    before = page.run("return model.generation")
    page.run("document.getElementById('drop-rest').click()")
    page.wait(f"model.generation > {before}")
    page.settle()
    assert page.run("return document.getElementById('rest').hidden")
    assert page.run("return document.getElementById('diagnosis').hidden")


def test_replacing_a_long_text_replaces_all_of_it(page):
    page.paste(FILLER + LOG)
    type_into_box(page, Keys.CONTROL, "a", Keys.NULL, "hello")
    assert box(page) == "hello" and page.run("return model.rest === null")
    assert page.text("#recognised").startswith("Nothing in this text")


def test_a_long_text_is_pasted_where_the_cursor_is(page):
    type_into_box(page, "before after")
    page.run("""
        const box = document.getElementById('text');
        box.setSelectionRange(7, 7);
        const data = new DataTransfer();
        data.setData('text/plain', arguments[0]);
        box.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true,
                                                       cancelable: true}));""", FILLER)
    page.wait("model.rest !== null")
    page.settle()
    assert box(page).startswith("before [1/73]")
    rest = page.driver.execute_async_script("model.rest.text().then(arguments[0])")
    assert box(page) + rest == f"before {FILLER}after"


def test_hints_name_menus_and_not_options_of_the_program(page):
    for key, value in [(None, None), *CHOSEN.items(), ("gpu", "none"), ("torch", "")]:
        if key is not None:
            page.choose(f"fact-{key}", value)
        assert "--given" not in page.text("body") and "add --" not in page.text("body"), key
    page.paste(LOG)
    page.choose("fact-torch", "2.8.0")
    assert "--given" not in page.text("body")
    assert "Decided from the log, then your choices" in page.text("#diagnosis-body")


def test_a_text_that_says_nothing_is_told_so(page):
    page.paste("Hello, my install does not work, please help.")
    assert page.text("#recognised").startswith("Nothing in this text describes a machine")
    assert page.run("return document.getElementById('diagnosis').hidden")


def test_a_link_carries_choices_and_never_the_text(page):
    page.paste(WINDOWS + "\nSECRET-MARKER-4711\n")
    headline = page.text("#answer-title")
    page.choose("fact-driver", "580")
    fragment = page.run("return location.hash")
    assert "torch=2.6.0" in fragment and "driver=580" in fragment
    assert "SECRET" not in fragment and "project" not in fragment
    page.open(fragment)
    assert page.text("#answer-title") == headline
    assert page.run("return document.getElementById('fact-torch').value") == "2.6.0"
    assert page.text("#fact-torch-source") == "chosen"


def test_a_link_from_outside_is_only_text(page):
    page.open("#gpu=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&torch=2.9.1&os=" + "x" * 5000)
    assert page.run("return document.querySelectorAll('img, script:not([src])').length") == 0
    assert page.run("return document.getElementById('fact-gpu').value").startswith("<img")
    assert page.text("#answer-title").startswith("os=xxx")


def test_the_back_button_returns_to_the_answer_before(page):
    choose_all(page)
    before = page.plan()
    page.choose("fact-torch", "2.8.0")
    assert page.plan() != before
    page.driver.back()
    page.wait("model.values.torch === '2.9.1'")
    page.settle()
    assert page.plan() == before
    page.driver.forward()
    page.wait("model.values.torch === '2.8.0'")
    page.settle()


def test_going_back_before_the_paste_forgets_it(page):
    page.choose("fact-os", "linux")
    page.paste(WINDOWS)
    page.driver.back()
    page.wait("model.paste === null")
    page.settle()
    assert page.run("return document.getElementById('text').value") == ""
    assert page.plan()["facts"]["platform.os"] == "linux"


def test_the_skip_link_keeps_the_answer(page):
    page.paste(WINDOWS)
    before = page.plan()
    page.run("document.querySelector('.skip').click()")
    assert page.run("return document.activeElement.id") == "answer-title"
    assert page.run("return model.paste !== null") and page.plan() == before


def test_clear_starts_again(page):
    page.paste(WINDOWS)
    before = page.run("return model.generation")
    page.run("document.getElementById('clear').click()")
    page.wait(f"model.generation > {before}")
    page.settle()
    assert page.run("return location.hash") == ""
    assert page.text("#answer-title").startswith("For example: ")


def test_the_matrix_has_the_way_of_every_build_and_opens_it(page, native):
    choose_all(page)
    page.wait("document.getElementById('matrix').dataset.complete")
    cells = page.run("return [...document.querySelectorAll('.grid button')].map(one =>"
                     "[one.getAttribute('aria-label').split(':')[0], one.className])")
    assert len(cells) > 40
    for label, way in cells[::9]:
        words = [word for word in WORDS if not word.startswith("torch")]
        words.append("torch=" + label.removeprefix("torch "))
        assert way == "way-" + native("plan", "--json", *given(words))["way"], label
    before = page.run("return model.generation")
    page.run("document.querySelector('.grid button').click()")
    page.wait(f"model.generation > {before}")
    page.settle()
    torch = page.run("return document.querySelector('.grid th[scope=row]').textContent")
    assert page.plan()["facts"]["torch.version"].startswith(torch)
    assert page.run("return document.activeElement.id") == "answer-title"


def test_the_catalog_says_its_date_and_size(page):
    catalog = page.plan()["catalog"]
    assert catalog["date"] in page.text("#catalog")
    wheels = f"{catalog['count']:,} published wheels"
    assert wheels in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    rows = page.run("return [...document.querySelectorAll('#sources li')].map(one =>"
                    "one.textContent)")
    owners = {row.split("/")[0] for row in rows}  # one of them may have two repositories
    assert f"{wheels} of {len(owners)} publishers" in page.text("#catalog")
    assert any(row.startswith("Dao-AILab/flash-attention:") for row in rows)


def test_nothing_is_asked_of_another_server(page, server):
    page.paste(WINDOWS)
    asked = page.run("return performance.getEntriesByType('resource').map(one => one.name)")
    assert asked and all(name.startswith(server.url) for name in asked)
    assert {path.split("?")[0] for path in server.http.asked} <= {
        "/", "/style.css", "/page.js", "/icon.svg", "/anyflash.wasm"}


def test_the_page_works_without_a_network_after_the_first_visit(driver):
    server = Server()
    page = Page(driver, server.url)
    page.open()
    driver.execute_async_script("navigator.serviceWorker.ready.then(() => arguments[0]())")
    server.stop()
    page.open("#torch=2.9.1&torch_cuda=cu128&os=linux&python=3.12&arch=x86_64&gpu=RTX+4090")
    assert page.plan()["decision"] == "wheel"
    page.open("index.html#torch=2.9.1&torch_cuda=cu128")
    assert page.plan()["facts"]["torch.version"] == "2.9.1+cu128"


def test_without_javascript_the_page_says_what_to_do():
    text = (ROOT / "page/index.html").read_text()
    assert "<noscript>" in text and "anyflash plan" in text.split("<noscript>")[1]
