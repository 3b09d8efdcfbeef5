"""What a change of `anyflash check` must never do, over projects that are put together."""
import ast
import itertools
import json
import os
import random
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import write

ROWS = [json.loads(line) for line in
        (Path(__file__).parent / "projects.jsonl").read_text().splitlines()]
RELEASES = {tuple(line.split("\t")[:2]) for line in
            (Path(__file__).parents[2] / "data/index_releases.tsv").read_text().splitlines()
            if not line.startswith("#")}
WEIGHT = {"error": 2, "remark": 1}

TORCH = ["", "torch", "torch==2.6.0", "torch>=2.4", "torch==2.8.0", "torch==2.15.0",
         "torch==2.2.2+cu118"]
FLASH = ["flash-attn", "flash_attn==2.7.3", "flash-attn>=2.8.3", "flash-attn==2.5.9",
         "flash-attn==2.8.3", "flash-attn==1.0.4", "flash-attn~=2.7.0"]
UV = ["", "no-build-isolation-package = ['flash-attn']\n",
      "[tool.uv.extra-build-dependencies]\nflash-attn = ['torch']\n",
      "[tool.uv.extra-build-dependencies]\nflash-attn = ['torch==2.7.0']\n",
      "[tool.uv.extra-build-dependencies]\n"
      "flash-attn = [{ requirement = 'torch', match-runtime = true }]\n",
      "extra-build-dependencies = { flash-attn = ['torch>=2.6,<2.7'] }\n",
      "[tool.uv.extra-build-dependencies]\n"
      "flash-attn = [{ requirement = 'torch', match-runtime = true }]\n"
      "[tool.uv.extra-build-variables]\n"
      "flash-attn = { FLASH_ATTENTION_SKIP_CUDA_BUILD = 'TRUE' }\n"]
EXTRAS = ["", "[project.optional-dependencies]\nflash=['xformers']\n",
          "[project.optional-dependencies]\n\"flash\" = []\n",
          "optional-dependencies.a = ['x']\n"]
PYTHON = ["", "import flash_attn\n",
          "from flash_attn import flash_attn_func\n\n\ndef f(q):\n"
          "    return flash_attn_func(q, q, q)\n",
          "try:\n    import flash_attn\nexcept ModuleNotFoundError:\n    flash_attn = None\n",
          "FLASH_ATTN_2_AVAILABLE = True\nassert FLASH_ATTN_2_AVAILABLE\n",
          "import torch\nfrom flash_attn import (\n    flash_attn_func as f,  # fast\n)\n"]
COMMANDS = ["", "pip install flash-attn\n",
            "pip install torch==2.6.0 && pip install flash-attn==2.3.6\n",
            "pip install git+https://github.com/Dao-AILab/flash-attention\n"]


def pyproject(torch, flash, uv, extras, optional):
    words = [f'"{torch}"'] if torch else []
    if not optional:
        words.append(f'"{flash}"')
    text = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.10"\n'
    text += f"dependencies = [{', '.join(words)}]  # kept\n{extras}"
    if optional:
        has_table = "optional-dependencies]" in extras
        table = "" if has_table else "[project.optional-dependencies]\n"
        if "optional-dependencies.a" not in extras:
            text += f'{table}gpu = ["{flash}"]\n'
    return text + ("[tool.uv]\n" + uv if uv.startswith(("no-", "extra-")) else uv)


def random_project(seed):
    """Files; some parts of them are broken, or in the line ends of Windows."""
    draw = random.Random(seed)
    files = {}
    if draw.random() < 0.6:
        parts = [draw.choice(each) for each in (TORCH, FLASH, UV, EXTRAS)]
        files["pyproject.toml"] = pyproject(*parts, draw.random() < 0.4)
    if draw.random() < 0.6:
        name = draw.choice(["requirements.txt", "requirements-gpu.txt",
                            "requirements/base.txt"])
        behind = draw.choice(["", "  # fast", " ; python_version > '3.9'"])
        lines = [draw.choice(TORCH), draw.choice(FLASH) + behind,
                 draw.choice(["numpy", "# end"])]
        draw.shuffle(lines)
        files[name] = "\n".join(filter(None, lines)) + draw.choice(["\n", ""])
    files["model.py"] = draw.choice(PYTHON)
    files["pkg/layer.py"] = draw.choice(PYTHON)
    files["pkg/__init__.py"] = draw.choice([
        "", "from .layer import f\n",
        "try:\n    from . import layer\nexcept ImportError:\n    layer = None\n"])
    files[draw.choice(["a.sh", "README.md"])] = draw.choice(COMMANDS)
    if draw.random() < 0.2:
        files = {name: text.replace("\n", "\r\n") for name, text in files.items()}
    if draw.random() < 0.1 and "pyproject.toml" in files:
        files["pyproject.toml"] += draw.choice(["[tool.uv\n", "\ufeff", "x = [1, 2\n"])
    return files


def parses(name, text):
    try:
        if name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith(".py"):
            ast.parse(text)
    except (ValueError, SyntaxError):
        return False
    return True


def weights(rows):
    """How many findings there are of each severity or more."""
    return [sum(WEIGHT[row["severity"]] >= least for row in rows) for least in (1, 2)]


def needs(files):
    text = files.get("model.py", "").replace("\r", "")
    starts = ("import flash", "from flash", "import torch\nfrom flash")
    return text.startswith(starts) or "assert FLASH" in text


def required(files):
    """Lines outside of extras that ask for flash-attn."""
    count = 0
    for name, text in files.items():
        if name == "pyproject.toml" and parses(name, text):
            asked = tomllib.loads(text).get("project", {}).get("dependencies", [])
        elif name.endswith(".txt"):
            asked = [line for line in text.splitlines() if not line.startswith("#")]
        else:
            continue
        count += any("flash" in each for each in asked)
    return count


def check_change(check, files):
    before = check(files, "--json")
    if before.returncode > 1 or not before.json["diff"]:
        return False
    assert check({}, "--write").returncode == before.returncode
    made = {name: (check.folder / name).read_bytes().decode() for name in files}
    after = check({}, "--json").json
    for name, text in made.items():
        assert parses(name, text) or not parses(name, files[name]), name
        crlf = files[name].count("\r\n"), files[name].count("\n")
        if crlf[0] == crlf[1]:
            assert text.count("\r\n") == text.count("\n"), name
        lost = [line for line in files[name].splitlines() if "#" in line and
                line.split("#")[1] not in text]
        is_unused = "never-imported" in [row["id"] for row in before.json["findings"]]
        assert is_unused or not lost, (name, lost)
    old, new = weights(before.json["findings"]), weights(after["findings"])
    assert all(a <= b for a, b in zip(new, old)), (old, new)
    if needs(made):
        assert required(made) >= required(files)
    for name, text in made.items():
        words = text.replace('"', " ").replace("'", " ").replace("_", "-").split()
        for word in words:
            pair = tuple(word.rstrip(",;]").split("=="))
            if len(pair) == 2 and pair[0] in ("torch", "flash-attn") and word not in \
                    files[name].replace("_", "-"):
                assert (pair[0], pair[1].split("+")[0]) in RELEASES, word
    again = check({}, "--write")
    assert "wrote" not in again.stdout or weights(check({}, "--json").json["findings"]) <= new
    return True


@pytest.mark.parametrize("seed", range(3 if os.environ.get("ANYFLASH_TEST_NIGHT") else 1))
def test_a_change_that_is_shown_makes_no_project_worse(tmp_path, seed):
    changed = 0
    for number in range(40):
        files = random_project(seed * 1000 + number)
        changed += check_change(Project(tmp_path / str(number)), files)
    assert changed > 10


class Project:
    """The fixture check(), in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def __call__(self, files, *words):
        write(self.folder, {name: text.encode() for name, text in files.items()})
        done = subprocess.run([os.environ["ANYFLASH"], "check", *words, str(self.folder)],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 1, 2, 3), done.stderr
        if "--json" in words and done.returncode < 2:
            done.json = json.loads(done.stdout)
        return done


@pytest.mark.parametrize("number", range(0, len(ROWS)))
def test_no_change_of_the_corpus_makes_a_project_worse(tmp_path, number):
    check_change(Project(tmp_path / "project"), ROWS[number]["files"])


def test_uv_settings_of_every_kind_meet_every_pin(tmp_path):
    """Each has findings that name a cause, and what is repaired has none of weight left."""
    folder = iter(range(1000))
    sets = list(itertools.product(TORCH[1:4], FLASH[:3], UV[1:]))
    for torch, flash, uv in sets[::1 if os.environ.get("ANYFLASH_TEST_NIGHT") else 2]:
        files = {"pyproject.toml": pyproject(torch, flash, uv, "", False)}
        check_change(Project(tmp_path / str(next(folder))), files)
