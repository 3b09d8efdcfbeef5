"""Nothing that a project says is a command in a log of GitHub, in any form of the answer."""
import json
import os
import random
import re
import subprocess

import pytest

from conftest import PROGRAM, write

FORMS = [[], ["--diff"], ["--json"], ["--github"], ["--write"]]
BLANKS = ["", " ", "\t", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028",
          "\u3000", "\ufeff", "é", "x", "\x1b[0m"]
COMMANDS = ["::add-mask::x", "::error file=a::b", "::set-output name=a::b", "##[add-mask]x",
            "##[error]b", "###[group]", ":::stop-commands::x", "a ##[warning]b", "::", "##["]
HOSTILE = [blank + command for blank in BLANKS for command in COMMANDS]


def commands(output, form):
    """The lines that GitHub's runner takes for commands (TryParse, TryParseV2)."""
    for line in re.split("\r\n|\r|\n", output):
        own = form == ["--github"] and re.match("::((warning|notice) file=|notice::)", line)
        if "##[" in line or (line.lstrip().startswith("::") and not own):
            yield line


def check(folder, files, *words):
    """stdout and stderr in a workflow; both end up in its log."""
    for name, text in files.items():
        path = os.path.join(os.fsencode(folder), name.encode())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode())
    done = subprocess.run([PROGRAM, "check", *words, str(folder)], capture_output=True,
                          timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": str(folder),
                                           "COLUMNS": "40", "GITHUB_ACTIONS": "true"})
    assert done.returncode in (0, 1), done
    return done.stdout.decode(), done.stderr.decode()


def project(seed):
    """A project with hostile lines, names and values around what is found and changed."""
    pick = random.Random(seed).choice

    def words():
        return pick(HOSTILE) + pick([" ", "\n", "\r\n", "\r"])
    name = re.sub("[/\0]", "", pick(HOSTILE)) + pick(["", "\n", " "]) + pick(HOSTILE)
    return {
        f"{name}/requirements.txt": words() + words()
        + "torch==2.6.0\nflash-attn==2.7.4.post1 # "
        + words() + words() + words(),
        "requirements.txt": f"flash-attn==2.8.3 ; sys_platform == '{pick(HOSTILE)}'\n"
        + words(),
        "setup.sh": words() + "\npip install flash-attn " + words() + words(),
        "Dockerfile": f"FROM x-runtime {pick(HOSTILE)}\nRUN pip install flash-attn\n"
        + words(),
        "README.md": words() + "\n    pip install flash-attn\n" + words() + words(),
        "pyproject.toml": '[project]\nname = "x"\ndependencies = [\n"flash-attn", # '
        + pick(HOSTILE).replace("\r", "") + "\n]\n",
        f"{name}.py": "import os\nfrom flash_attn import flash_attn_func\n#" + words()
        + words(),
    }


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_nothing_of_a_project_is_a_command(tmp_path, form, seed):
    for output in check(tmp_path, project(seed), *form):
        assert list(commands(output, form)) == []


def test_says_that_it_changed_what_it_prints(tmp_path):
    files = {"requirements.txt": "torch==2.6.0\n::add-mask::x\nflash-attn==2.7.4.post1\n"}
    out, said = check(tmp_path, files, "--diff")
    assert " : :add-mask::x\n" in out and "such lines of a diff do not apply" in said
    assert "workflow command" not in check(tmp_path, {"requirements.txt": "flash-attn\n"})[1]


def test_json_has_the_same_values(tmp_path):
    write(tmp_path, {"requirements.txt":
             "torch==2.6.0\nflash-attn==2.7.4.post1 # ##[error]x\n"})
    rows = [json.loads(subprocess.run([PROGRAM, "check", "--json", str(tmp_path)],
                                      capture_output=True, env=more).stdout)
            for more in ({}, {"GITHUB_ACTIONS": "true"})]
    assert rows[0] == rows[1] and "##[error]" in rows[0]["diff"]


def test_elsewhere_the_lines_stay(tmp_path):
    write(tmp_path, {"requirements.txt": "torch==2.6.0\n::add-mask::x\n"
                     "flash-attn==2.7.4.post1\n##[error]\n"})
    done = subprocess.run([PROGRAM, "check", "--diff", str(tmp_path)], capture_output=True,
                          text=True, env={})
    assert "\n ::add-mask::x\n" in done.stdout and "\n ##[error]\n" in done.stdout
