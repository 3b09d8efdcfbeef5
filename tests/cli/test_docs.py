"""The commands, options and linked files named in the guides exist."""
import functools
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "data" / "README.md",
         *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")


def named(path):
    return str(path.relative_to(ROOT))


def commands_of(page):
    """The words of each code line that starts with `anyflash`, without its comment, and without
    another program's command behind `--`."""
    text = page.read_text().replace("\\\n", " ")
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`(anyflash [^`]+)`", FENCED.sub("", text))
    for line in lines:
        for part in re.split(r"&&|\||;", line.removeprefix("$ ")):
            if part.strip().split(" ")[0] == "anyflash":
                words = shlex.split(part, comments=True)[1:]
                yield words[:words.index("--")] if "--" in words else words


@pytest.fixture
def options_of(anyflash):
    @functools.cache
    def of(command):
        answer = anyflash("help", *command)
        assert answer.code == 0, f"no command {command}"
        return set(OPTION.findall(answer.out))
    return of


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_commands_and_options_of_a_page_exist(page, options_of):
    for words in commands_of(page):
        command = tuple(word for word in words[:1] if re.fullmatch("[a-z]+", word))
        for word in words:
            option = OPTION.match(word)
            assert not option or option.group() in options_of(command), " ".join(words)
        options_of(command)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", FENCED.sub("", page.read_text())):
        assert "://" in target or (page.parent / target).exists(), target
