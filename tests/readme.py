"""The commands that README.md prints, and where each of them is run.

    python3 tests/readme.py      the lines that tests/fresh.sh runs in a new system, in order

Every line of a block without a language is a command, unless the block begins with "$ ": that
one shows what a command prints, and tests/cli/test_readme.py compares it. A command that is not
in one of the tables below is run in a new system.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: Run by tests/cli/test_readme.py, which has the files that they name.
WITH_FILES = ("anyflash doctor build.log",)

#: By how a command, or a block in another language, begins: why it is run elsewhere.
ELSEWHERE = {
    "git clone ": "a new system has a clone of the commit that is tested",
    "curl ": "there is nothing at the address before the release: `tests/run release`",
    "anyflash-": "a file of the release: `tests/run release`",
    "anyflash run -- pip install": "installs torch from an index: tests/install/test_run.py",
    "import anyflash.torch": "needs torch and transformers: `tests/run integrations`",
}


def blocks(text):
    """(language, text) of each block."""
    return FENCED.findall(text)


def commands(text):
    """Every command, and every block in another language, in the order of the page."""
    for language, block in blocks(text):
        if language:
            yield block
        elif not block.startswith("$ "):
            yield from block.splitlines()


def runs_in_a_new_system(command):
    return not command.startswith((*WITH_FILES, *ELSEWHERE))


def for_a_new_system(text):
    """The program is built and installed first, then used."""
    return sorted(filter(runs_in_a_new_system, commands(text)),
                  key=lambda command: not command.startswith(("make ", "sudo make ")))


if __name__ == "__main__":
    print(*for_a_new_system((ROOT / "README.md").read_text()), sep="\n")
