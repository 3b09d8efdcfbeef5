"""`anyflash find --html`, `--svg`, `--matrix`: the best way for every torch and CUDA build."""
import html.parser
import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RTX4090 = ["os=linux", "arch=x86_64", "glibc=2.35", "python=3.12", "gpu=RTX 4090", "driver=580"]
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "gpu=</title><script>alert('1')</script>&\"\x1b[31m\uffff\u202e"
VOID = ("meta", "link", "br", "img")


def given(words):
    return [part for word in words for part in ("--given", word)]


class Document(html.parser.HTMLParser):
    """The elements of a page; fails if they are not nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.cells, self.text = [], set(), [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        if tag in ("td", "th"):
            self.cells.append((tag, dict(attributes), []))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.cells[-1][2].append(data)

    def published(self):
        cells = [(attributes, texts) for tag, attributes, texts in self.cells if tag == "td"]
        return [(attributes, " ".join("".join(texts).split())) for attributes, texts in cells
                if "class" in attributes]


def table(anyflash, form, *words, facts=RTX4090):
    answer = anyflash("find", form, *words, *given(facts))
    assert answer.code == 0, answer
    return answer.out


def table_cells(anyflash, facts=RTX4090):
    return json.loads(table(anyflash, "--matrix", facts=facts))["cells"]


@pytest.mark.parametrize("facts", [
    RTX4090,
    ["os=windows", "arch=x86_64", "python=3.11", "gpu=RTX 3060", "driver=560"],
    ["os=linux", "arch=aarch64", "glibc=2.39", "python=3.12", "gpu=H100", "driver=580"],
], ids=["linux", "windows", "aarch64"])
def test_each_cell_is_what_plan_says(anyflash, facts):
    cells = table_cells(anyflash, facts)
    assert len(cells) > 10
    for cell in cells[::7]:
        torch = f"torch={cell['torch']}+{cell['build']}"
        plan = json.loads(anyflash("plan", "--json", *given([*facts, torch])).out)
        assert (cell["way"], cell["headline"]) == (plan["way"], plan["headline"]), torch
        if cell["way"] in ("official", "community"):
            assert cell["version"] == cell["label"] == plan["wheel"]["version"]


def test_the_torch_of_the_machine_does_not_count(anyflash):
    record = ROOT / "examples/machines/rtx4090-torch2.15.json"
    cells = json.loads(anyflash("find", "--matrix", "--machine", record).out)["cells"]
    plan = json.loads(anyflash("plan", "--json", "--machine", record,
                               *given(["torch=2.8.0+cu128"])).out)
    [cell] = [one for one in cells if (one["torch"], one["build"]) == ("2.8.0", "cu128")]
    assert cell["headline"] == plan["headline"]


def test_the_page_says_each_way_in_words(anyflash):
    answer = json.loads(table(anyflash, "--matrix"))
    titles = {way["name"]: way["title"] for way in answer["ways"]}
    page = Document(table(anyflash, "--html"))
    assert len(page.published()) == len(answer["cells"])
    for cell, (attributes, text) in zip(answer["cells"], page.published()):
        assert attributes == {"class": cell["way"], "title": cell["headline"]}
        version = f"{cell['version']} " if cell["version"] else ""
        assert text == version + titles[cell["way"]]
    for title in titles.values():
        assert title in page.text.split("Legend")[1]
    assert "RTX 4090" in page.text and answer["catalog"]["date"] in page.text


def test_the_page_is_one_table_with_headings(anyflash):
    page = Document(table(anyflash, "--html"))
    headings = [attributes["scope"] for tag, attributes, _ in page.cells if tag == "th"]
    assert headings.count("col") == headings.index("row")
    assert headings.count("row") > 10
    assert "caption" in page.names
    assert not page.names & {"script", "link", "img", "iframe"}


def test_the_picture_says_each_way_in_words(anyflash):
    answer = json.loads(table(anyflash, "--matrix"))
    titles = {way["name"]: way["title"] for way in answer["ways"]}
    root = xml.etree.ElementTree.fromstring(table(anyflash, "--svg"))
    groups = root.findall(f"{SVG}g")
    assert len(groups) == len(answer["cells"])
    for cell, group in zip(answer["cells"], groups):
        words = titles[cell["way"]] + (f" {cell['version']}" if cell["version"] else "")
        name = f"torch {cell['torch']}+{cell['build']}"
        assert group.find(f"{SVG}title").text == f"{name}: {words}"
        assert group.find(f"{SVG}text").text == cell["label"]
        assert group.find(f"{SVG}rect").get("class") == cell["way"]
    assert not {one.tag for one in root.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}a"}


def test_nothing_is_drawn_outside_of_the_picture(anyflash):
    facts = [*RTX4090, "gpu=" + ", ".join(["NVIDIA RTX PRO 6000 Blackwell Server Edition"] * 8)]
    root = xml.etree.ElementTree.fromstring(table(anyflash, "--svg", facts=facts))
    width, height = float(root.get("width")), float(root.get("height"))
    for one in root.iter(f"{SVG}rect"):
        if one.get("class") != "paper":
            assert float(one.get("x")) + float(one.get("width")) <= width
            assert float(one.get("y")) + float(one.get("height")) <= height
    for one in root.iter(f"{SVG}text"):
        assert float(one.get("y")) < height
        start = float(one.get("x"))
        assert start + (0 if "middle" in one.get("class") else 5.5 * len(one.text)) <= width


@pytest.mark.parametrize("facts", [RTX4090, ["gpu=T4"], ["os=macos"]],
                         ids=["linux", "unknown", "macos"])
def test_no_text_of_the_picture_covers_another(anyflash, facts):
    root = xml.etree.ElementTree.fromstring(table(anyflash, "--svg", facts=facts))
    texts = sorted((float(one.get("y")), float(one.get("x")), one.text)
                   for one in root.findall(f"{SVG}text") if "middle" not in one.get("class"))
    for (y, x, text), (next_y, next_x, _) in zip(texts, texts[1:]):
        assert next_y - y >= 14 or (next_y == y and x + 5.5 * len(text) < next_x), text


def test_a_table_without_cells_has_no_legend(anyflash):
    assert "Legend" not in table(anyflash, "--html", facts=["os=macos"])
    assert "official wheel" not in table(anyflash, "--svg", facts=["os=macos"])


def test_hostile_values_are_text(anyflash):
    page = Document(table(anyflash, "--html", facts=[*RTX4090, HOSTILE]))
    assert not page.names & {"script"}
    root = xml.etree.ElementTree.fromstring(table(anyflash, "--svg",
                                                  facts=[*RTX4090, HOSTILE]))
    shown = " ".join(one.text for one in root.iter(f"{SVG}text"))
    for text in (page.text, shown):
        assert "</title><script>alert('1')</script>&\"\\x1b[31m" in text
        assert "\x1b" not in text and "\u202e" not in text and "\uffff" not in text


def test_missing_facts_are_said(anyflash):
    cells = table_cells(anyflash, ["gpu=RTX 4090"])
    assert "undecided" in {cell["way"] for cell in cells} <= {"undecided", "kernels"}
    assert "unknown: a fact is missing" in table(anyflash, "--html", facts=["gpu=RTX 4090"])


def test_macos_has_no_cuda(anyflash):
    assert table_cells(anyflash, ["os=macos"]) == []
    for form in ("--html", "--svg"):
        assert "There is no CUDA build of torch for this platform." in table(
            anyflash, form, facts=["os=macos"])


def test_options_of_the_request_are_shown(anyflash):
    page = Document(table(anyflash, "--html", "--official", "--arch", "9.0"))
    assert "official ones only" in page.text and "9.0" in page.text
    assert "RTX 4090" not in page.text
    assert not [1 for attributes, _ in page.published() if attributes["class"] == "community"]


def test_several_machines_are_named(anyflash):
    records = sorted((ROOT / "examples/machines").glob("rtx4090*.json"))[:2]
    words = [part for record in records for part in ("--machine", record)]
    answer = anyflash("find", "--html", *words)
    assert all(record.name in answer.out for record in records)


@pytest.mark.parametrize("form", ["--html", "--svg"])
def test_the_file_is_written_and_only_replaced_if_it_is_ours(anyflash, tmp_path, form):
    path = tmp_path / "table"
    for _ in range(2):
        answer = anyflash("find", form, "-o", path, *given(RTX4090))
        assert answer.code == 0 and answer.out == "" and f"wrote '{path}'" in answer.err, answer
    assert path.read_text() == table(anyflash, form)
    path.write_text("mine")
    answer = anyflash("find", form, "-o", path, *given(RTX4090))
    assert answer.code == 3 and f"exists and was not written by `find {form}`" in answer.err
    assert "hint: name another file with --output" in answer.err
    assert path.read_text() == "mine"


def test_json_is_printed_with_and_without_json(anyflash):
    assert table(anyflash, "--matrix") == table(anyflash, "--matrix", "--json")


@pytest.mark.parametrize("path, error", [
    ("none/table.html", "cannot write 'none/table.html': No such file or directory"),
    ("/proc/table.html", "cannot write '/proc/table.html': "),
    (".", "'.' exists and was not written by `find --html`"),
    ("/dev/full", "'/dev/full' exists and was not written by `find --html`"),
])
def test_a_file_that_cannot_be_written_exits_3(anyflash, tmp_path, path, error):
    before = sorted(tmp_path.iterdir())
    answer = anyflash("find", "--html", "-o", path, *given(RTX4090))
    assert answer.code == 3 and answer.out == "" and f"error: {error}" in answer.err, answer
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("form", ["--html", "--svg", "--matrix"])
def test_standard_output_that_is_full_exits_3(anyflash, form):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([anyflash.program, "find", form, *given(RTX4090)], stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "error: cannot write to standard output: No space left on device\n"


def test_a_full_disk_leaves_the_earlier_page(in_a_mount, tmp_path):
    (tmp_path / "disk").mkdir()
    done = in_a_mount("""
        mount -t tmpfs -o size=40k none disk
        "$1" find --html -q -o disk/table.html --given os=macos
        md5sum disk/* >before
        head -c 30000 /dev/zero >disk/other || true
        "$1" find --html -o disk/table.html --given os=linux 2>error && exit 9
        rm disk/other
        md5sum disk/* >after""")
    assert done.returncode == 0, done
    error = (tmp_path / "error").read_text()
    assert error == "error: cannot write 'disk/table.html': No space left on device\n"
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text() != ""


def test_a_reader_that_leaves_is_no_error(anyflash):
    done = subprocess.run(f"{anyflash.program} find --html --given os=linux | head -1",
                          shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "<!DOCTYPE html>\n", "")


def test_a_full_pipe_is_waited_for(anyflash):
    expected = table(anyflash, "--html")
    end, start = os.pipe()
    os.set_blocking(start, False)
    filled = os.write(start, bytes(1 << 20))
    program = subprocess.Popen([anyflash.program, "find", "--html", *given(RTX4090)],
                               stdout=start, stderr=subprocess.PIPE)
    os.close(start)
    time.sleep(1)
    with open(end, "rb") as pipe:
        assert pipe.read()[filled:].decode() == expected
    assert program.communicate()[1] == b"" and program.returncode == 0


def test_an_interrupted_run_leaves_no_half_file(anyflash, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for run in range(12):
        program = subprocess.Popen([anyflash.program, "find", "--html", "-q", "-o",
                                    folder / "table.html", *given(RTX4090)])
        time.sleep(0.03 * run)
        program.send_signal(signal.SIGINT)
        assert program.wait() in (0, 130, -signal.SIGINT)
        for path in folder.iterdir():
            assert path.name == "table.html" and path.read_text().endswith("</html>\n")


@pytest.mark.parametrize("words, error", [
    (("-o", "x.html"), "--output only works with --html or --svg"),
    (("--matrix", "-o", "x.json"), "--output only works with --html or --svg"),
    (("--html", "torch=2.9"), "--html cannot be used with search words"),
    (("--svg", "--limit", "3"), "--svg cannot be used with --limit"),
    (("--html", "--json"), "--html cannot be used with --json"),
    (("--html", "--svg"), "--html cannot be used with --svg"),
    (("--matrix", "--svg"), "--svg cannot be used with --matrix"),
    (("--html=x.html",), "option '--html' takes no value"),
    (("--format", "html"), "unknown option '--format' for 'find'"),
])
def test_wrong_options_exit_2(anyflash, words, error):
    answer = anyflash("find", *words)
    assert answer.code == 2 and answer.out == "" and f"error: {error}\n" in answer.err, answer


def test_the_colours_are_those_of_the_web_page(anyflash):
    style = (ROOT / "page/style.css").read_text()
    light, dark = style.split("@media (prefers-color-scheme: dark)", 1)
    document = table(anyflash, "--html")
    first, second = document.split("@media screen and (prefers-color-scheme:dark)")
    for way in json.loads(table(anyflash, "--matrix"))["ways"]:
        for of_page, of_document in ((light, first), (dark, second)):
            [color] = re.findall(rf"--{way['name']}: (#\w+);", of_page)
            assert f".{way['name']}{{background:{color};" in of_document
