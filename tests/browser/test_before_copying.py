"""What a visitor must know before copying a command, and how the answer is shown."""
import itertools
import re

import pytest
from test_page import WINDOWS
from test_visitor import SIX, asked_for, choose, shown

PORTABLE = (r"C:\ComfyUI_windows_portable>.\python_embeded\python.exe -m pip install flash-attn"
            "\n  Getting requirements to build wheel ... error\n"
            "ModuleNotFoundError: No module named 'torch'\n")
MENUS = {"gpu": ["", "RTX 4090", "T4", "RX 7900"], "os": ["", "linux", "windows"],
         "python": ["", "3.11"], "torch": ["", "2.9.1", "2.15.0"],
         "torch_cuda": ["", "cu128", "cpu"], "arch": ["", "aarch64"]}


def test_no_command_hides_what_it_assumes(page):
    """chromium.py has the rule; this tries it on all pairs of values, half of them unknown."""
    copies = 0
    for (one, ones), (other, others) in itertools.combinations(MENUS.items(), 2):
        for value, second in itertools.product(ones, others):
            rest = {"gpu": "RTX 4090", "torch": "2.9.1"}
            page.run("model.values = arguments[0]; model.installer = arguments[1]; refresh()",
                     {**rest, one: value, other: second}, "portable" if value else "")
            page.settle()
            copies += page.run("return document.querySelectorAll('.assumes').length")
    assert copies > 50


def test_python_is_asked_for_where_the_wheel_depends_on_it(page):
    page.paste(PORTABLE)
    choose(page, gpu="RTX 5070", torch="2.9.1", torch_cuda="cu130")
    for place in ("#diagnosis-body", "#answer-body"):
        assert asked_for(page, place) == ["Python"]
        assert "Assumes Python 3.12" in page.text(f"{place} .command.main .assumes")
    page.run("document.querySelector('.command.main .assumes button').click()")
    assert page.run("return document.activeElement.id") == "fact-python"
    choose(page, python="3.13")
    assert "cp313" in page.text("#diagnosis-body .command.main code")
    assert asked_for(page, "#answer-body") == []


def test_the_advice_on_a_missing_torch_does_not_contradict_itself(page):
    page.paste(PORTABLE)
    said = page.text("#diagnosis-body")
    assert "Don't reinstall torch" in said and "Install torch" not in said
    assert "To compile instead, on Linux" in said


def test_an_unknown_cuda_is_said_beside_the_command(page):
    choose(page, gpu="RTX 4090", os="windows", python="3.12", torch="2.9.1", arch="x86_64")
    assert asked_for(page, "#answer-body") == ["CUDA build of torch"]
    assert "Assumes a torch for CUDA 1" in page.text("#answer-body .assumes")
    choose(page, torch_cuda="cu128")
    assert page.text("#answer-body .assumes") is None


@pytest.mark.parametrize("publisher, text", [
    ("mjun0812/flash-attention-prebuild-wheels",
     "Community build by mjun0812, not by the authors of flash-attn. Its release"),
    ("Dao-AILab/flash-attention", "Official build, published by Dao-AILab. Its release")])
def test_who_published_a_wheel_stands_beside_its_command(page, publisher, text):
    choose(page, gpu="RTX 4090", os="linux", python="3.12", torch="2.8.0", torch_cuda="cu128",
           libc="glibc 2.35")
    page.choose("publisher", publisher)
    assert page.text("#answer-body .publisher") == text
    link = page.run("return document.querySelector('#answer-body .publisher a').href")
    assert re.fullmatch(f"https://github.com/{publisher}/releases/tag/v[^/]+", link)


@pytest.mark.parametrize("text", ["MacBook Pro M3 Max", "my mac has an m3", "M3",
                                  "MacBook Pro M3 Max, torch 2.9"])
def test_a_mac_is_recognised_in_a_sentence(page, text):
    page.paste(text)
    assert page.text("#recognised").startswith("Recognised")
    assert page.plan()["facts"]["platform.os"] == "macos"
    assert page.text("#answer-title").startswith("Use torch's own attention")
    assert asked_for(page, "#answer-body") == []


@pytest.mark.parametrize("path, system", [
    ("/Users/me/venv/lib", "macos"), ("/c/Users/me/venv/lib", "linux"),
    ("/mnt/c/Users/me/venv/lib", "linux"), ("/opt/venv/lib", "linux")])
def test_a_log_with_paths_of_a_mac_is_of_a_mac(page, path, system):
    page.paste(f'Traceback (most recent call last):\n  File "{path}/a.py", line 1\n'
               "OSError: CUDA_HOME environment variable is not set.\n"
               "ERROR: Failed building wheel for flash-attn\n")
    assert page.plan()["facts"]["platform.os"] == system
    if system == "macos":
        assert page.text("#fact-os-source") == "line 2 of your text"
        assert "flash-attn cannot work on this" in page.text("#diagnosis-title")


def test_the_headline_and_command_stay_while_menus_are_used(page):
    page.resize(1366, 768)
    choose(page, **SIX)
    for menu in ("fact-gpu", "fact-driver", "official"):
        page.run("document.getElementById(arguments[0]).scrollIntoView({block: 'center'})",
                 menu)
        for place in ("#answer-title", "#answer-body .command.main .copy"):
            box = page.run("return document.querySelector(arguments[0])"
                           ".getBoundingClientRect().toJSON()", place)
            assert 0 <= box["top"] and box["bottom"] <= 768, (menu, place)


def test_the_table_of_a_phone_shows_the_chosen_cell_and_that_there_is_more(page):
    page.resize(390, 844)
    choose(page, **SIX)
    page.wait("document.getElementById('matrix').dataset.complete")
    cell, box = page.run("return ['#matrix button[aria-pressed=true]', '#matrix'].map(one =>"
                         "document.querySelector(one).getBoundingClientRect().toJSON())")
    assert box["left"] <= cell["left"] and cell["right"] <= box["right"]
    assert shown(page, "sideways")
    assert page.run("return document.getElementById('matrix').className") == "scroll more"
    page.run("document.getElementById('matrix').scrollLeft = 10000")
    page.wait("document.getElementById('matrix').className === 'scroll'")
    page.resize(1366)
    page.wait("document.getElementById('sideways').hidden")


def test_the_gpu_box_shows_the_model(page):
    page.paste(WINDOWS)
    assert page.run("return document.getElementById('fact-gpu').value") == "RTX 3060"
    assert page.run("return model.values.gpu") == "NVIDIA GeForce RTX 3060"


def test_the_example_does_not_look_like_an_answer(page):
    assert page.text("button.copy") == "Copy example" and page.text(".command.main") is None
    choose(page, **SIX)
    assert page.text(".command.main button.copy") == "Copy"


def test_no_heading_says_the_same_as_another(page):
    headings = page.run("return [...document.querySelectorAll('h1, h2, summary')]"
                        ".map(one => one.textContent.trim().toLowerCase())")
    assert sum("what you have" in one for one in headings) == 1
    assert "paste what you have" not in page.text("header").lower()
