"""What visitors have: little knowledge, small screens, other systems, no program, odd files."""
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import pytest
from chromium import Page, Server
from conftest import NAME, ROOT
from test_page import LOG, WINDOWS, given, without_name

SIX = {"gpu": "RTX 3060", "os": "windows", "python": "3.11", "torch": "2.6.0",
       "torch_cuda": "cu124", "driver": "570"}
SIX_WORDS = ["gpu=RTX 3060", "os=windows", "python=3.11", "driver=570", "torch=2.6.0+cu124"]
WINDOWS_LOG = ("Traceback (most recent call last):\n"
               r'  File "C:\ComfyUI_windows_portable\ComfyUI\nodes.py", line 3, in <module>'
               "\n    import flash_attn_2_cuda as flash_attn_gpu\n"
               "ImportError: DLL load failed while importing flash_attn_2_cuda: "
               "The specified procedure could not be found.\n")

OUT_OF_MEMORY = ("c++: fatal error: Killed signal terminated program cc1plus\n"
                 "ERROR: Failed building wheel for flash-attn\n")
RELEASE = ("https://example.org/anyflash/releases/download/v9.8.7/anyflash-9.8.7-py3-none-")
SENTENCE = "RTX 3060, torch 2.6, Python 3.11"
HARMLESS = "UserWarning: 1Torch was not compiled with flash attention.\n"
COMFYUI = r"""** Platform: Windows
** Python version: 3.12.10 (tags/v3.12.10:0cc8128) [MSC v.1943 64 bit (AMD64)]
** Python executable: C:\ComfyUI_windows_portable\python_embeded\python.exe
Total VRAM 24564 MB, total RAM 65277 MB
pytorch version: 2.7.1+cu128
Device: cuda:0 NVIDIA GeForce RTX 4090 : cudaMallocAsync
"""


def choose(page, **values):
    for key, value in values.items():
        page.choose(f"fact-{key}", value)


def shown(page, identifier):
    return page.run("return document.getElementById(arguments[0]).offsetParent !== null",
                    identifier)


def top_of(page, identifier):
    return page.run("return document.getElementById(arguments[0]).getBoundingClientRect().top",
                    identifier)


def asked_for(page, place):
    """The menus that the answer names as still open."""
    return page.run("return [...document.querySelectorAll(`${arguments[0]} > .ask button`)]"
                    ".map(one => one.textContent)", place)


def set_project(page, url):
    """Makes the page as `make page` does with or without URL."""
    page.run("""
        document.getElementById('get')?.remove();
        if (arguments[0] === '')
            return;
        const link = document.createElement('a');
        Object.assign(link, {id: 'get', href: `${arguments[0]}/guide`});
        link.dataset.release = `${arguments[0]}/releases/download/v9.8.7/anyflash-9.8.7`;
        document.querySelector('header').append(link);""", url)


def first_label(page, key):
    """The label of a menu's first entry, which is selected while nothing is chosen."""
    return page.run("const menu = document.getElementById(arguments[0]);"
                    "return menu.selectedOptions[0].label", f"fact-{key}")


def test_what_is_not_chosen_is_assumed_as_the_program_does(page, native):
    choose(page, **SIX)
    expected = native("plan", "--json", *given(SIX_WORDS))
    assert expected["decision"] == "wheel"
    assert without_name(page.plan()) == without_name(expected)
    assert first_label(page, "arch") == "x86_64 (Intel, AMD), assumed"


def test_the_system_is_that_of_the_browser_until_it_is_known(page):
    assert first_label(page, "os") == "Linux, assumed"
    assert page.plan()["facts"]["platform.os"] == "linux"
    page.paste(WINDOWS)
    assert page.plan()["facts"]["platform.os"] == "windows"


def test_the_page_begins_with_an_answer_to_an_example(page, native):
    words = ["gpu=RTX 4090", "os=linux", "python=3.12", "torch=2.9.1+cu128"]
    expected = native("plan", "--json", *given(words))
    assert page.text("#answer-title") == f"For example: {expected['headline']}"
    assert page.text("#for").startswith("An example, for RTX 4090 · Linux · Python 3.12")
    assert page.commands()[0] == expected["steps"][0]["command"]
    assert page.text("#fact-torch-source") == "an example"
    choose(page, gpu="RTX 3060")
    assert page.plan()["facts"]["torch.version"] is None
    assert page.text("#for") == (
        "For RTX 3060 · Linux · Python 3.12. Assumed: System Linux, Python 3.12, "
        "Processor x86_64 (Intel, AMD).")
    assert asked_for(page, "#answer-body") == ["Python", "torch"]
    page.run("document.querySelector('#answer-body button').click()")
    assert page.run("return document.activeElement.id") == "fact-python"


def test_the_gpu_of_this_computer_is_assumed_until_a_text_describes_another(page):
    names = page.run("return model.firstChoices.facts[0].choices.map((one) => one.value)")
    page.run("""
        HTMLCanvasElement.prototype.getContext = () => ({
            getExtension: () => ({ loseContext() {} }), getParameter: () => window.drawn});""")
    find = "window.drawn = arguments[0]; return findBrowserGpu(arguments[1])"
    for drawn, name in {
        "ANGLE (NVIDIA, NVIDIA GeForce RTX 3060 Ti (0x00002489) Direct3D11 vs_5_0)": "RTX 3060",
        "ANGLE (Apple, ANGLE Metal Renderer: Apple M3 Pro, Unspecified Version)": "M3",
        "NVIDIA GeForce GTX 980, or similar": "", "ANGLE (Google, SwiftShader Device)": "",
    }.items():
        assert page.run(find, drawn, names) == name
    page.run("model.browserGpu = 'RTX 3060'")
    choose(page, torch="2.6.0", torch_cuda="cu124")
    assert page.text("#answer-title").startswith("If Python is 3.12, a wheel fits")
    assert page.text("#fact-gpu-source") == "of this browser"
    assert "gpu=RTX+3060" in page.run("return fragmentOf()")
    page.paste(LOG)
    assert page.run("return model.assumed.gpu") is None


def test_a_browser_on_windows_describes_windows(page):
    page.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {
        "userAgent": "Mozilla/5.0", "platform": "Win32",
        "userAgentMetadata": {"platform": "Windows", "platformVersion": "", "architecture": "",
                              "model": "", "mobile": False}})
    try:
        page.open("#gpu=RTX+3060&python=3.11&torch=2.6.0&torch_cuda=cu124")
        assert first_label(page, "os") == "Windows, assumed"
        assert page.plan()["decision"] == "wheel"
        assert page.plan()["steps"][0]["command"].endswith("win_amd64.whl")
        assert not shown(page, "fact-libc")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {
            "userAgent": "", "platform": ""})


def test_a_text_without_the_system_gets_an_answer(page):
    page.paste("Python 3.11.9\nPackage Version\n------- -------\ntorch   2.6.0+cu124\n"
               "| NVIDIA-SMI 570.86.10  Driver Version: 570.86.10  CUDA Version: 12.8 |\n"
               "|   0  NVIDIA GeForce RTX 3060     Off | 00000000:01:00.0  On |   N/A |\n")
    assert page.plan()["facts"]["platform.os"] == "linux"
    assert first_label(page, "os") == "Linux, assumed"


def test_the_next_step_of_a_log_is_the_command_of_the_answer(page):
    page.paste(LOG)
    assert "Get the program anyflash" in page.text("#diagnosis-body .program")
    choose(page, gpu="RTX 4090", torch="2.9.1", torch_cuda="cu128", libc="glibc 2.31")
    step = next(one for one in page.plan()["steps"] if one["command"])
    assert page.text("#diagnosis-body .command.main code") == step["command"]


def test_the_next_step_of_a_log_of_windows_needs_no_program(page):
    page.paste(WINDOWS_LOG)
    assert "anyflash" not in page.text("#diagnosis-body h3 + p")
    assert page.text("#diagnosis-body .program") is None
    assert asked_for(page, "#diagnosis-body") == ["GPU", "Python", "torch"]
    page.run("document.querySelector('#diagnosis-body > .row button').click()")
    assert page.run("return document.activeElement.id") == "fact-gpu"


def test_a_sentence_gets_an_answer_and_a_button_for_what_is_open(page):
    page.paste("RTX 3060, torch 2.6, Python 3.11 on Windows")
    assert page.plan()["decision"] == "wheel"
    assert page.text("#unsure") == "Unsure because: the CUDA version of torch is unknown."
    page.run("document.querySelector('#answer-body > .row button').click()")
    assert page.run("return document.activeElement.id") == "fact-torch_cuda"
    choose(page, torch_cuda="cu124")
    assert page.text("#answer-title").startswith("A wheel fits")


def test_a_text_of_comfyui_gets_commands_of_its_own_python(page, native):
    page.paste(COMFYUI)
    expected = native("plan", "--json", "--machine", NAME, text=COMFYUI.encode())
    assert page.text("#answer-title") == expected["headline"]
    assert page.commands()[0] == expected["steps"][0]["powershell"]
    assert "\\python_embeded\\python.exe -m pip install" in page.commands()[0]
    page.paste(WINDOWS_LOG)
    assert "`" not in page.text("#diagnosis-body h3 + p")
    assert ".\\python_embeded\\python.exe -m pip uninstall" in page.text("#diagnosis-body")
    page.paste(WINDOWS)
    assert page.commands()[0].startswith("python -m pip install")


@pytest.mark.parametrize("before, kind", [("", "log"), (WINDOWS, "output")],
                         ids=["alone", "after a description"])
def test_a_harmless_message_is_said_to_be_one(page, native, before, kind):
    page.paste(before + HARMLESS)
    expected = native("doctor", "--json", NAME, text=HARMLESS.encode())["harmless"]
    assert page.run("return model.paste.kind") == kind
    assert page.text("#diagnosis-title") == "Nothing in this log is a failure of flash-attn"
    assert expected["why"][1:] in page.text("#diagnosis-body")
    assert "not compiled" in page.text("#diagnosis-body .log .marked")
    page.paste(WINDOWS)
    assert not shown(page, "diagnosis")


def test_a_command_of_the_program_comes_after_getting_it(page):
    set_project(page, "https://example.org/anyflash")
    page.paste(OUT_OF_MEMORY)
    commands = page.run("return [...document.querySelectorAll('#diagnosis-body details code')]"
                        ".map(one => one.textContent)")
    assert commands == [f"uv pip install {RELEASE}manylinux_2_28_x86_64.whl",
                        "anyflash build --check"]


@pytest.mark.parametrize("more, platform", [
    ({}, "manylinux_2_28_x86_64"), ({"arch": "aarch64"}, "manylinux_2_28_aarch64"),
    ({"libc": "glibc 2.17"}, "any"), ({"libc": "musl 1.2"}, "any")])
def test_the_package_of_the_program_is_installed_from_its_release(page, more, platform):
    set_project(page, "https://example.org/anyflash")
    choose(page, gpu="V100", python="3.12", torch="2.9.1", torch_cuda="cu128", **more)
    own = [step for step in page.plan()["steps"] if step["kind"] == "own"]
    assert own[0]["command"].startswith("anyflash package install")
    assert page.commands()[0] == f"uv pip install {RELEASE}{platform}.whl"
    assert not any(one.startswith("anyflash ") for one in page.commands())
    page.click("#installer-pip")
    assert page.commands()[0] == f"python -m pip install {RELEASE}{platform}.whl"


def test_a_page_without_a_project_says_how_to_get_the_program(page):
    set_project(page, "")
    choose(page, gpu="V100", python="3.12", torch="2.9.1", torch_cuda="cu128")
    own = "#answer-body .steps > li:nth-child(2)"
    assert "as docs/guide/install.md in anyflash's sources says" in page.text(own)
    assert page.text(f"{own} button") is None
    assert page.run("return answerAsText()").count("pip install") == 0
    page.paste(OUT_OF_MEMORY)
    assert "docs/guide/install.md" in page.text("#diagnosis-body .program")
    assert page.text("#diagnosis-body .program button") is None


def test_a_torch_newer_than_the_list_is_answered_with_releases_first(page):
    choose(page, gpu="RTX 5090", os="windows", torch="2.15.0", torch_cuda="cu130")
    assert page.plan()["decision"] == "torch-change"
    assert page.text("#answer-title") == (
        f"This page's list of {page.plan()['catalog']['date']} is older than torch 2.15.0")
    links = page.run("return [...document.querySelectorAll('#answer-body > ul a')]"
                     ".map(one => one.href)")
    assert "https://github.com/mjun0812/flash-attention-prebuild-wheels/releases" in links
    assert page.commands() == [] and "torch==" not in page.run("return answerAsText()")
    last = page.text("#answer-body > details:last-child > summary")
    assert "Another torch" in last
    page.paste(WINDOWS_LOG)
    choose(page, gpu="RTX 5090", os="windows", torch="2.15.0", torch_cuda="cu130")
    assert "is older than torch 2.15.0" in page.text("#diagnosis-body h3 + p")
    assert page.text("#diagnosis-body .command.main") is None
    choose(page, os="linux")
    assert page.plan()["decision"] == "torch-kernels"
    assert "is older than torch 2.15.0" in page.text("#answer-title")
    assert page.text("#answer-body > h3") == f"Or: {page.plan()['headline']}"


def test_reloading_gets_a_newer_page(driver, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(os.environ["ANYFLASH_PAGE"], folder)
    monkeypatch.setenv("ANYFLASH_PAGE", str(folder))
    server = Server()
    page = Page(driver, server.url)
    page.open("#gpu=RTX+5090&os=windows&torch=2.15.0&torch_cuda=cu130")
    driver.execute_async_script("navigator.serviceWorker.ready.then(() => arguments[0]())")
    for name, old, new in (("page.js", 'RELEASE = "', 'RELEASE = "newer'),
                           ("index.html", "<h1>", "<h1>Newer: ")):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    page.run("[...document.querySelectorAll('#answer-body button')].find(one =>"
             "one.textContent === 'Reload this page').click()")
    page.wait("document.querySelector('h1').textContent.startsWith('Newer: ')")
    page.settle()
    server.stop()


@pytest.mark.parametrize("text", ["RTX 5070 laptop, win 11, python 3.10", "RTX 4090, linux"])
def test_without_a_torch_the_answer_is_a_torch_and_its_wheel(page, native, text):
    page.paste(text)
    assert page.plan()["decision"] is None
    words = [f"{key}={value}" for key, value in page.run("return model.assumed").items()]
    expected = native("plan", "--json", "--machine", NAME, *given([*words, "torch=none"]),
                      text=text.encode())
    assert page.text("#answer-title") == f"No torch yet? {expected['headline']}"
    shell = "powershell" if "win" in text else "command"
    assert page.commands() == [step[shell] for step in expected["steps"] if step[shell]]
    torch = next(i for i, command in enumerate(page.commands()) if "torch==" in command)
    assert page.commands()[torch + 1].endswith(".whl")
    assert "torch" in asked_for(page, "#answer-body")


def test_a_cause_of_another_package_has_a_button_for_its_answer(page, native):
    page.paste("Traceback (most recent call last):\n"
               "ModuleNotFoundError: No module named 'flash_attn_interface'\n")
    page.run("[...document.querySelectorAll('#diagnosis-body button')].find(one =>"
             "one.textContent === 'Answer for flash_attn_3').click()")
    page.wait("model.package === 'flash_attn_3'")
    page.settle()
    assert page.run("return document.getElementById('package').value") == "flash_attn_3"


def test_a_link_to_a_diagnosis_shows_its_cause(page):
    page.paste(LOG + "\nSECRET-MARKER-4711\n")
    title, why = page.text("#diagnosis-title"), page.text("#diagnosis-body h3 + p")
    fragment = page.run("return fragmentOf()")
    assert "cause=glibc-too-old" in fragment and "SECRET" not in fragment
    page.open("#" + fragment)
    assert page.text("#diagnosis-title") == title and page.text("#diagnosis-body h3 + p") == why
    assert "the log is not in it" in page.text("#diagnosis-body")
    page.paste("Hello")
    assert not shown(page, "diagnosis")
    page.open("#cause=banana")
    assert not shown(page, "diagnosis") and page.text("#answer-title")


@pytest.mark.parametrize("width, height", [
    (1366, 657), (1280, 720), (768, 1024), (390, 844), (360, 740)])
@pytest.mark.parametrize("content, title", [
    (WINDOWS, "answer-title"), (COMFYUI, "answer-title"), (SENTENCE, "answer-title"),
    (LOG, "diagnosis-title"), (OUT_OF_MEMORY, "diagnosis-title")],
    ids=["output", "ComfyUI", "sentence", "log", "build"])
def test_the_headline_is_in_sight_after_a_paste(page, width, height, content, title):
    page.resize(width, height)
    page.paste(content)
    page.wait("matchMedia('(min-width: 1000px)').matches || "
              "!document.getElementById('have').open")
    assert 0 <= top_of(page, title) < height / 2
    assert page.run("return document.documentElement.scrollWidth") <= width


def test_the_menus_are_said_in_one_line(page):
    page.resize(360, 740)
    choose(page, **SIX)
    assert page.text("#have-summary") == (
        "RTX 3060 · Windows · Python 3.11 · torch 2.6.0+cu124 (change)")
    page.run("scrollTo(0, 0)")
    page.wait("!document.getElementById('pinned').hidden")
    assert page.text("#pinned") == page.text("#answer-title")


def test_every_fitting_wheel_is_listed_and_a_version_can_be_chosen(page, native):
    choose(page, **SIX)
    names = page.run("return [...document.querySelectorAll('#wheels a')]"
                     ".map(one => one.textContent)")
    all_wheels = native("plan", "--all", "--json", *given(SIX_WORDS))
    assert names == [one["filename"] for one in all_wheels["candidates"]
                     if one["verdict"] == "yes"]
    versions = page.run("return [...document.getElementById('version').options]"
                        ".map(one => one.value)")
    assert len(versions) > 2
    page.choose("version", versions[2])
    assert without_name(page.plan()) == without_name(
        native("plan", "--json", "--version", versions[2], *given(SIX_WORDS)))
    page.open(page.run("return location.hash"))
    assert page.run("return document.getElementById('version').value") == versions[2]


def test_a_publisher_can_be_chosen(page, native):
    choose(page, **SIX)
    publishers = page.run("return [...document.getElementById('publisher').options]"
                          ".map(one => one.value)")
    wheels = page.run("return document.querySelectorAll('#wheels a').length")
    assert publishers[0] == "" and len(publishers) > 2
    page.choose("publisher", publishers[2])
    assert without_name(page.plan()) == without_name(
        native("plan", "--json", "--publishers", publishers[2], *given(SIX_WORDS)))
    rows = page.run("return [...document.querySelectorAll('#wheels li')]"
                    ".map(one => one.textContent)")
    assert 0 < len(rows) < wheels and all(publishers[2] in row for row in rows)
    assert page.text("#wheels summary") == f"Chosen wheels that fit ({len(rows)} of {wheels})"
    page.open(page.run("return location.hash"))
    assert page.run("return document.getElementById('publisher').value") == publishers[2]
    page.open("#publisher=nobody")
    assert page.run("return model.publisher") == "" and "error" not in page.plan()


def test_listed_wheels_of_one_name_differ_by_their_release(page):
    choose(page, gpu="RTX 4090", os="linux", python="3.12", torch="2.9.1", torch_cuda="cu128")
    rows = page.run("return [...document.querySelectorAll('#wheels li')]"
                    ".map(one => one.textContent)")
    assert len(rows) > 10 and len(set(rows)) == len(rows)
    assert any(", release v0.9.0" in row for row in rows)


def test_official_wheels_only(page, native):
    choose(page, **SIX)
    before = page.run("return model.generation")
    page.run("document.getElementById('official').click()")
    page.wait(f"model.generation > {before}")
    page.settle()
    assert without_name(page.plan()) == without_name(
        native("plan", "--json", "--official", *given(SIX_WORDS)))


def test_another_torch_can_be_chosen_by_a_button_and_has_its_steps(page):
    choose(page, gpu="RTX 4090", os="linux", python="3.12", torch="2.15.0", torch_cuda="cu130")
    [rung] = [one for one in page.plan()["rungs"] if one["name"] == "torch-change"]
    assert rung["torch_version"]
    page.run("for (const one of document.querySelectorAll('#answer-body details'))"
             "  if (one.textContent.includes('Another torch')) one.open = true")
    page.wait("document.querySelectorAll('#answer-body details[open] .steps code').length > 0")
    page.run("[...document.querySelectorAll('#answer-body button')].find(one =>"
             "one.textContent.startsWith('Answer for torch')).click()")
    page.wait("model.values.torch === arguments[0]", rung["torch_version"])
    page.settle()
    assert page.plan()["decision"] == "wheel"


def test_utf_16_is_read(page, tmp_path):
    for encoding in ("utf-16", "utf-16-be"):
        path = tmp_path / f"{encoding}.txt"
        mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
        path.write_bytes(mark + WINDOWS.encode(encoding))
        page.give_file(path)
        assert page.run("return model.paste.kind") == "output"
        assert page.plan()["facts"]["torch.version"] == "2.6.0+cu124"
        assert "\0" not in page.run("return document.getElementById('text').value")


def test_a_page_opened_as_a_file_says_what_to_do(driver):
    page = Page(driver, "")
    driver.get((pathlib.Path(os.environ["ANYFLASH_PAGE"]) / "index.html").as_uri())
    page.wait("document.getElementById('answer-title').textContent.includes('as a file')")
    assert "http.server" in page.text("#answer-body")
    assert "page.html" in page.text("#answer-body code")
    page.complaints()


def test_the_page_in_one_file_answers_without_a_server(driver, native):
    page = Page(driver, pathlib.Path(os.environ["ANYFLASH_PAGE"] + ".html").as_uri())
    page.resize(1280)
    page.open()
    assert page.text("#answer-title").startswith("For example: ")
    page.paste(WINDOWS)
    assert page.text("#answer-title") == native(
        "plan", "--json", "--machine", NAME, text=WINDOWS.encode())["headline"]
    page.open(page.run("return location.hash"))
    assert page.run("return model.values.torch") == "2.6.0"
    page.paste(LOG)
    assert "GLIBC_2.32" in page.text("#diagnosis-body .log")
    asked = page.run("return performance.getEntriesByType('resource').map(one => one.name)")
    assert [name for name in asked if not name.startswith(("blob:", "data:"))] == []
    assert page.complaints() == []


def test_without_javascript_nothing_is_shown_that_needs_it():
    text = (ROOT / "page/index.html").read_text()
    assert '<main id="main" hidden>' in text and text.index("</noscript>") < text.index("<main")


def test_on_a_slow_network_the_page_says_what_it_waits_for(driver):
    server = Server()
    server.second_half.clear()
    page = Page(driver, server.url)
    driver.get(server.url)
    page.wait("document.getElementById('answer-title').textContent.match(/wheels: \\d/)")
    assert page.text("#answer-title").startswith("Loading the catalog of wheels")
    assert shown(page, "text")
    assert not shown(page, "menus") and not shown(page, "table")
    driver.find_element("id", "text").send_keys("RTX 3060, torch 2.6")
    assert page.text("#recognised") == (
        "Your text will be read as soon as the catalog is loaded.")
    server.second_half.set()
    page.settle()
    page.wait("model.paste !== null")
    page.settle()
    assert page.text("#for").startswith("For RTX 3060")
    server.stop()


def test_a_missing_module_is_said_without_blaming_the_visitor(driver, server, tmp_path,
                                                              monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(os.environ["ANYFLASH_PAGE"], folder)
    (folder / "anyflash.wasm").unlink()
    monkeypatch.setenv("ANYFLASH_PAGE", str(folder))
    other = Server()
    page = Page(driver, other.url)
    driver.get(other.url)
    page.wait("document.getElementById('answer-body').textContent.includes('404')")
    assert "http.server" not in page.text("#answer-body")
    page.complaints()
    other.stop()


GOOD = {"gpu": "RTX 4090", "os": "linux", "python": "3.12", "torch": "2.9.1",
        "torch_cuda": "cu128", "driver": "580", "libc": "glibc 2.35", "arch": "x86_64"}


@pytest.mark.parametrize("bad", [
    {"python": "banana"}, {"os": "beos"}, {"torch": "kiwi"}, {"driver": "x"}, {"libc": "y"},
    {"arch": "z80"}, {"gpu": "foo9000", "python": "banana", "torch": "99.1", "os": "beos"}],
    ids="-".join)
def test_nonsense_in_a_link_is_refused_as_by_the_program(page, bad):
    words = given([f"{key}={value}" for key, value in bad.items()])
    done = subprocess.run([os.environ["ANYFLASH"], "plan", *words], text=True,
                          capture_output=True)
    assert done.returncode == 2
    page.open("#" + urllib.parse.urlencode({**GOOD, **bad}))
    key, why = re.match("(\\w+)=[^:]*: (.*)", page.text("#answer-title")).groups()
    assert key in bad and (len(bad) > 1 or why in done.stderr)
    assert page.text("button.copy") is None and not shown(page, "table")
    wrong = page.run("return [...document.querySelectorAll('.fact.refused')]"
                     ".map(one => one.querySelector('[data-key]').dataset.key)")
    accepted = {"gpu", "torch"} if len(bad) > 1 else set()
    assert set(wrong) - {"torch_cuda"} == set(bad) - accepted
    for one in wrong:
        assert page.text(f"#fact-{one}-source")
        page.choose(f"fact-{one}", GOOD[one])
    assert "error" not in page.plan() and page.text("button.copy") is not None


def test_reloading_and_going_back_keep_the_text(page):
    page.paste(LOG)
    title = page.text("#diagnosis-title")
    page.driver.refresh()
    page.settle()
    assert page.text("#diagnosis-title") == title
    assert "GLIBC_2.32" in page.run("return document.getElementById('text').value")
    page.run("document.getElementById('clear').click()")
    page.wait("model.paste === null")
    page.settle()
    assert page.run("return sessionStorage.length") == 0


def test_the_answer_can_be_copied_as_text(page):
    page.paste(LOG)
    text = page.run("return answerAsText()")
    assert page.text("#diagnosis-title") in text and "GLIBC_2.32" in text
    assert page.text("#answer-title") in text


def test_a_file_dropped_beside_the_box_is_read(page):
    before = page.run("return model.generation")
    left = page.run("""
        const data = new DataTransfer();
        data.items.add(new File([arguments[0]], "env.txt"));
        return document.querySelector('footer').dispatchEvent(new DragEvent('drop',
            {dataTransfer: data, bubbles: true, cancelable: true}));""", WINDOWS)
    assert left is False
    page.wait(f"model.generation > {before}")
    page.settle()
    assert page.run("return model.paste.kind") == "output"


def test_clear_forgets_every_choice(page):
    choose(page, **SIX)
    page.choose("package", "flash_attn_3")
    page.click("#installer-pip")
    page.click("#shell-cmd")
    before = page.run("return model.generation")
    page.run("document.getElementById('clear').click()")
    page.wait(f"model.generation > {before}")
    page.settle()
    assert page.run("return [model.package, model.installer, model.shell]") == ["", "", ""]
    assert page.run("return location.hash") == ""


def test_the_title_of_the_tab_is_the_answer(page):
    choose(page, **SIX)
    assert page.driver.title == f"anyflash: {page.text('#answer-title')}"


def contrast(page, selector):
    """WCAG's contrast of a text with the nearest background behind it."""
    return page.run("""
        const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((one) => {
            const part = one / 255;
            return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        }).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
        let behind = document.querySelector(arguments[0]);
        const front = light(getComputedStyle(behind).color);
        while (/, 0\\)$|transparent/.test(getComputedStyle(behind).backgroundColor))
            behind = behind.parentElement;
        const back = light(getComputedStyle(behind).backgroundColor);
        return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);""", selector)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_line_numbers_can_be_read(page, dark):
    page.resize(1280, dark=dark)
    page.paste(LOG)
    assert contrast(page, ".log .marked .number") >= 4.5
    assert contrast(page, ".log div:not(.marked) .number") >= 4.5


def test_official_cells_differ_by_more_than_colour(page):
    choose(page, gpu="RTX 4090", python="3.12", libc="glibc 2.35", driver="580")
    page.wait("document.getElementById('matrix').dataset.complete")
    marks = page.run("return ['.grid .way-official', '.grid .way-community'].map(name =>"
                     "getComputedStyle(document.querySelector(name), '::after').content)")
    assert "★" in marks[0] and "★" not in marks[1]


def test_the_table_is_one_tab_stop_and_arrow_keys_move_in_it(page):
    choose(page, gpu="RTX 4090")
    page.wait("document.getElementById('matrix').dataset.complete")
    assert page.run("return document.querySelectorAll('.grid button:not([tabindex=\"-1\"])')"
                    ".length") == 1
    before = page.run("const one = document.querySelector('.grid button[tabindex=\"0\"]');"
                      "one.focus(); return one.ariaLabel")
    page.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
             "{key: 'ArrowDown', bubbles: true}))")
    assert page.run("return document.activeElement.ariaLabel") != before


def test_gpus_are_found_by_a_part_of_their_name(page):
    names = page.run("return [...document.getElementById('gpus').options]"
                     ".map(one => one.value)")
    for name in ("RTX 5090", "Titan Xp", "Arc Pro B50", "Navi31", "RTX PRO", "MI300X"):
        assert name in names
    assert page.run("return document.getElementById('fact-gpu').list.id") == "gpus"


@pytest.mark.parametrize("gpu, system", [("RX 7900", "linux"), ("M3", "macos")])
def test_other_gpus_get_no_menus_and_table_of_nvidia(page, gpu, system):
    choose(page, gpu=gpu, os=system)
    assert not shown(page, "fact-driver") and not shown(page, "table")
    assert shown(page, "fact-torch_cuda") == (system == "linux")
    assert "CUDA" not in page.text("label[for=fact-torch_cuda]") or system == "macos"


def test_a_torch_for_rocm_can_be_chosen(page, native):
    choose(page, gpu="RX 7900", os="linux", python="3.12", torch="2.9.1", torch_cuda="rocm")
    words = ["gpu=RX 7900", "os=linux", "python=3.12", "torch=2.9.1+rocm"]
    assert without_name(page.plan()) == without_name(native("plan", "--json", *given(words)))
    assert page.run("return model.values.torch_cuda") == "rocm"


@pytest.mark.parametrize("content", [WINDOWS, LOG], ids=["output", "log"])
def test_no_words_of_the_inside(page, content):
    page.paste(content)
    text = page.text("#main")
    for word in ("torch-kernels", "torch-change", "resources.memory_gib", "platform.os",
                 "given.installer", "sm 8.6"):
        assert word not in text, word


def test_paper_shows_the_whole_log_and_nothing_to_press(page):
    page.paste(LOG)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        style = "getComputedStyle(document.querySelector('.log'))"
        assert page.run(f"return {style}.maxHeight") == "none"
        assert not shown(page, "fact-gpu")
        assert shown(page, "diagnosis-title") and shown(page, "have-summary")
        assert not shown(page, "text") and not shown(page, "share")
        assert page.run("return [...document.querySelectorAll('.ask, .links, main button')]"
                        ".filter(one => one.offsetParent !== null).length") == 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
