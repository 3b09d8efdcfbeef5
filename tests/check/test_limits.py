"""`anyflash check` on files of the largest size that it reads, made to be slow to check: time
and memory stay in proportion to the text, and what is not checked is said."""
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import GUARDED, PROGRAM, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

BYTES_MAX = (2 << 20) - 100
#: At night the files are as large as any that is read: what grows too fast shows at a quarter.
NIGHT = bool(os.environ.get("ANYFLASH_TEST_NIGHT"))
BYTES = BYTES_MAX if NIGHT else BYTES_MAX // 4
#: Sanitizers take more of both: there the files only look for errors.
FACTOR = 20 if b"__asan_init" in Path(PROGRAM).read_bytes() else 1
SECONDS = (6 if NIGHT else 3) * FACTOR  # of processor time; thrice what a busy old core takes
MEMORY_MB = 200 * FACTOR  # at the peak
ALL_SECONDS = 60 * FACTOR  # for as many such files as are read
ALL_MEMORY_MB = 600 * FACTOR
WHEEL = ("https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
         "flash_attn-2.8.3+cu12torch2.7cxx11abiFALSE-cp312-cp312-linux_x86_64.whl")

# name of the file: (before, what is repeated, after), "%d" counts
PATTERNS = {
    "requirements.txt": [
        ("", "flash-attn==1.0\n", ""), ("torch==2.6.0\n", "flash-attn==1.0.%d\n", ""),
        ("torch==2.6.0\n", "flash-attn==2.8.3.post%d\n", ""),
        ("", "torch==2.%d\n", "flash-attn"),
        ("torch==2.6.0\n", "flash-attn>=2,<3.%d\n", ""), ("torch\n", "flash-attn==2.%d\n", ""),
        ("torch==2.7.0\n", WHEEL + "\n", ""), ("", "a\n", "flash-attn"),
        ("", "-e ./\n", "flash-attn"),
        ("", "./x%d\n", "flash-attn"), ("", "-r x%d.txt\n", "flash-attn"),
        ("", "-r requirements.txt\n", "flash-attn"), ("flash-attn", " ", ""),
        ("flash-attn", " \\\n", ""), ("flash-attn ", "--hash a ", ""), ("flash-attn ", "'", ""),
        ("flash-attn", ",>1", ""), ("flash-attn; ", "python_version>'3' or ", "a"),
        ("", "\\\n", "flash-attn"),
        ("flash-attn[", "a,", "]"), ("", "-", "flash-attn"), ("-i ", "'", ""),
        ("", "-i '\n", ""),
        ("torch==2.6.0\n", "flash-attn==2.7.4 ; sys_platform=='win32'\n", ""),
        ("torch==2.6.0\n" + "#" * 1000000 + "\n", "flash-attn\n", ""),
        ("", "flash-attn #\n", ""),
        ("#" * 1500000 + "/whl/cu\ntorch==2.7.0\n", WHEEL + "\n", "")],
    "pyproject.toml": [
        ("[project]\ndependencies=[", "'flash-attn',", "]"),
        ("[project]\ndependencies=[\n", "'flash-attn',\n", "]"),
        ("[project]\ndependencies=[\n'torch==2.6.0',", "'flash-attn==2.8.3.post%d',\n", "]"),
        ("[project]\ndependencies=['flash-attn'", ",[]", "]"),
        ("[project]\ndependencies=", "[", ""),
        ("[project]\nrequires-python='", ">=3,", "'\ndependencies=['flash-attn','torch']"),
        ("[project]\n", "k%d=1\n", "dependencies=['flash-attn']"),
        ("[project.optional-dependencies]\n", "e%d=['flash-attn==2.%d']\n", ""),
        ("[dependency-groups]\n", "e%d=['flash-attn']\n", ""),
        ("[dependency-groups]\n" + "".join(f"g{i}=['flash-attn']\n" for i in range(2000)) +
         "[tool.uv]\ndefault-groups=[", "'',", "]"),
        ("[tool.uv.sources]\nflash-attn=[", "{marker=\"sys_platform=='win32'\"},",
         "]\n[project]\ndependencies=[" + "'flash-attn'," * 50000 + "]"),
        ("[tool.poetry.dependencies]\ntorch='", ">1,", "'\nflash-attn='*'"),
        ("[tool.poetry.dependencies]\nflash-attn=[", "{version='^2.%d'},", "]"),
        ("[tool.poetry.dependencies]\nflash-attn='*'", " ", "\n"),
        ("[tool.poetry.dependencies]\nflash-attn='^", "1.", "1'\n"),
        ("", "[a%d]\nb=1\n", "[project]\ndependencies=['flash-attn']"),
        ("[a", ".b", "]"), ("", "[[a]]\n", ""), ("a=[", "1,", "]"), ("a='", "x", "'"),
        ("", "\n", "a=1"),
        ("[project]\nclassifiers=[", "'Operating System',", "]\ndependencies=['flash-attn']"),
        ("[tool.uv]\nenvironments=[", "\"sys_platform=='darwin'\",",
         "]\n[project]\ndependencies=['flash-attn']")],
    "pixi.toml": [
        ("[pypi-dependencies]\nflash-attn=[", "{},", "]"),
        ("[dependencies]\npytorch='", "1|", "'"),
        ("", "[feature.f%d.pypi-dependencies]\nflash-attn='*'\n", ""),
        ("", "[target.t%d.pypi-dependencies]\nflash-attn='*'\ntorch='1'\n", ""),
        ("[pypi-dependencies]\nflash-attn={version='", "=1,", "'}"),
        ("", "a.b.c%d=1\n", "")], "environment.yml": [
        ("dependencies:\n  - pip:\n", "    - flash-attn==1\n", ""),
        ("dependencies:\n  - pip:\n    - torch==2.6.0\n", "    - flash-attn==2.8.3.post%d\n",
         ""),
        ("dependencies:\n  - pip:\n", "    - x\n", "    - flash-attn"),
        ("dependencies:\n", "- pytorch=2\n", ""),
        ("dependencies:\n  - pip:\n", "    - ./\n", "    - flash-attn"),
        ("dependencies:\n- pip:\n  - torch==2.6.0\n  - ", " ", "flash-attn"),
        ("dependencies:\n", "- x\n", "- flash-attn"),
        ("dependencies:\n- python=", "3.1|", "\n"),
        ("dependencies:\n- pytorch=2", ",>1", "\n- pip:\n  - flash-attn"),
        ("dependencies:\n", "- pip:\n", ""),
        ("dependencies:\n- ", "a::", "pytorch"), ("", "#\n", ""),
        ("dependencies:\n- 'flash-attn", " #", "'")],
    "setup.cfg": [
        ("[options]\ninstall_requires=\n", " flash-attn==1\n", ""),
        ("", "[options]\n", "x=flash-attn"),
        ("[options]\n", "install_requires=flash-attn\n", ""),
        ("[options]\npython_requires=", ">=3,", ""),
        ("[options]\n", "python_requires=>=3\n", "install_requires=flash-attn"),
        ("[options.extras_require]\n", "a=torch==2.6\n", "b=flash-attn==2")],
    "setup.py": [
        ("setup(install_requires=[", "'flash-attn',", "])"),
        ("setup(install_requires=[", "'',", "])"),
        ("setup(install_requires=[\n", "'flash-attn==2.%d',\n", "'torch==2.6.0'])"),
        ("setup(install_requires=", "[", "'flash-attn'"),
        ("", "python_requires='>=3'\n", "flash_attn"),
        ("", "install_requires=['./']\n", ""),
        ("'''", "'", "flash_attn")], "a.py": [
        ("", "import flash_attn\n", ""), ("", "from flash_attn import flash_attn_func\n", ""),
        ("from flash_attn import flash_attn_func", ",flash_attn_func", ""),
        ("from flash_attn import (flash_attn_func,\n", "flash_attn_varlen_func,\n", ")"),
        ("try:\n" + " import flash_attn\n" * 50000, "except ImportError:\n pass\n", ""),
        ("try:\n" + " import flash_attn\n" * 50000, "except:\n raise\n", "except:\n pass"),
        ("", "try:\n import flash_attn\nexcept ImportError:\n pass\n", ""),
        ("import flash_attn\n", "if x:\n", ""), ("import flash_attn\n", "(", ""),
        ("import flash_attn", ";", ""),
        ("import flash_attn\n", "'", ""), ("import flash_attn\n", "\\\n", ""),
        ("import flash_attn\n", " \n", ""),
        ("import flash_attn\n", "with x:\n", ""), ("import flash_attn\n#", "flash_att", ""),
        ("".join(" " * i + "try:\n" for i in range(60)), " " * 60 + "import flash_attn\n", ""),
        ("import flash_attn", ".a", ""), ("import ", "flash_attn,", ""),
        ("", "flash_att", "")], "Dockerfile": [
        ("FROM python:3\nRUN ", "pip install flash-attn;", ""),
        ("FROM x\n", "RUN pip install flash-attn\n", ""),
        ("FROM python:3\n", "RUN pip install flash-attn\n", ""),
        ("FROM x\nRUN ", "pip install --no-build-isolation flash-attn;", ""),
        ("FROM " + "a" * 1000000 + "\n", "RUN pip install --no-build-isolation flash-attn\n",
         ""),
        ("", "FROM a-runtime\nRUN pip install flash-attn\n", ""),
        ("", "FROM pytorch\n", "RUN pip install flash-attn"),
        ("FROM x\nRUN ", "pip install '", ""),
        ("FROM x\nRUN ", "pip install \\\n", "flash-attn"),
        ("FROM x\nRUN pip install ", "flash-attn ", ""),
        ("FROM x\nRUN pip install -f ", "flash-attn ", ""),
        ("FROM x\nRUN ", "pip install " + WHEEL + ";", "")],
    "a.sh": [
        ("", "pip install flash-attn\n", ""), ("", "pip install flash-attn;", ""),
        ("", "pip install \\\n", "flash-attn"),
        ("", "pip install '", ""), ("", "\n", "pip install flash-attn"),
        ("", " \n", "pip install flash-attn"),
        ("", "pip install \"\\", ""), ("", "pip", ""), ("pip", "1", ""), ("", "pip ", ""),
        ("pip", " ", "install"),
        ("", "pip install -r x\n", "pip install flash-attn"),
        ("", "pip install --no-build-isolation flash-attn\n", ""),
        ("", "pip install --no-build-isolation flash-attn\n", "pip install torch"),
        ("", "pip install torch;", "pip install flash-attn"),
        ("pip install flash-attn ", "#", ""),
        ("", "pip install flash-attn#\n", ""), ("", "\\", ""),
        ("", "\\\n", "pip install flash-attn"),
        ("", "pip install " + WHEEL + "\n", ""),
        ("", "pip install\n", "flash-attn")], "README.md": [
        ("", "    pip install flash-attn\n", ""), ("    ", "pip install flash-attn;", ""),
        ("", "python ", "-m pip install flash-attn"), ("", "p", ""),
        ("", "!", "pip install flash-attn"),
        ("", "$ ", "pip install flash-attn"), ("", "> pip install flash-attn\n", ""),
        ("", "sudo pip", " install flash-attn"), ("", "#\n", "    pip install flash-attn\n"),
        ("", "a\n---\n", "    pip install flash-attn\n"),
        ("", "```\n", "pip install flash-attn\n"),
        ("    pip install flash-attn\n", "-\n", ""), ("    pip install flash-attn\n", "=", ""),
        ("", " ", "pip install flash-attn"), ("", "- ", "pip install flash-attn")],
}
TOKENS = {
    "requirements.txt": ["flash-attn", "torch", "==", "2.6.0", "\n", "\n", " ", ";", "'", "#",
    "\\\n", "-r ",
                         "-e ", "./", "--hash=", "[", "]", ",", "sys_platform", "@ ", WHEEL],
    "pyproject.toml": ["[project]\n", "dependencies=", "[", "]", "'flash-attn'", ",", "\n", "{",
    "}", "=", "a",
                       "[tool.poetry.dependencies]\n", "'torch==2.6.0'", "#", "'''", "."],
    "pixi.toml": ["[pypi-dependencies]\n", "flash-attn='*'\n", "[dependencies]\n",
    "pytorch='2.*'\n", "[", "]", "\n",
                  "[feature.a.pypi-dependencies]\n"],
    "environment.yml": ["dependencies:\n", "- ", "pip:\n", "  ", "flash-attn", "pytorch", "=2",
    "\n", "\n", "#", "'"],
    "setup.cfg": ["[options]\n", "install_requires=", "\n", "\n", " flash-attn",
    " torch==2.6.0", "=", "python_requires"],
    "setup.py": ["install_requires=[", "'flash-attn'", ",", "]", "(", ")", "\n", "'",
    "python_requires=", "#"],
    "a.py": ["import ", "from ", "flash_attn", "flash_attn_func", ",", "(", ")", "\n", "\n",
    " ", "try:", "except:",
             "except ImportError:", "raise", "if x:", "def f():", "'", "'''", "#", ";", "\\\n"],
    "Dockerfile": ["FROM ", "python:3", "-runtime", "\n", "\n", "RUN ", "pip install ",
    "flash-attn ", ";", "&&", "'",
                   "\\\n", "torch ", "pytorch", "nvcc", "#", "--no-build-isolation "],
    "a.sh": ["pip install ", "flash-attn ", ";", "'", '"', "\\\n", "\\", "\n", "torch ", "#",
    "-r x ", "`",
             "--no-build-isolation ", "pip3 ", "uv ", WHEEL + " "],
    "README.md": ["pip install ", "flash-attn ", "python ", "-m ", "$ ", "! ", "    ", "\n",
    "\n", "```\n", "#", "---\n",
                  "torch ", ";", "\\\n", "p"],
}


def fill(before, unit, after):
    """`unit` as often as a file of the largest size has room for."""
    if "%d" not in unit:
        return before + unit * ((BYTES - len(before) - len(after)) // len(unit)) + after
    made, size, count = [before], len(before) + len(after), unit.count("%d")
    for i in range(BYTES):
        text = unit % ((i,) * count)
        size += len(text)
        if size > BYTES:
            return "".join(made) + after
        made.append(text)


def mixture(name, seed):
    """Words of such files in any order, some of them in long runs."""
    source, made, size = random.Random(seed), [], 0
    words = TOKENS[name]
    if source.random() < 0.5:  # the fewer there are, the longer are the same sequences
        words = source.sample(words, min(len(words), source.randint(2, 5)))
    while True:
        run = source.choice(words) * (1 if source.random() < 0.9 else source.randint(2, 3000))
        size += len(run)
        if size > BYTES:
            return "".join(made) + " flash-attn flash_attn\n"
        made.append(run)


def measure(tmp_path, files, *words):
    """Runs `check` on the files; returns its output, and its seconds and MB."""
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder, files)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with open(tmp_path / "out", "w+b") as out:
        process = subprocess.Popen([PROGRAM, "check", *words, str(folder)], stdout=out,
                                   stderr=subprocess.STDOUT, env=environment)
        end = time.monotonic() + 60
        while (done := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                process.kill()
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(done[1])
        out.seek(0)
        text = out.read().decode()
    assert process.returncode in (0, 1), text[:300]
    return text, done[2].ru_utime + done[2].ru_stime, done[2].ru_maxrss / 1024


@pytest.mark.parametrize("name, pattern", [
    pytest.param(name, pattern, id=f"{name}-{i}")
    for name, patterns in PATTERNS.items() for i, pattern in enumerate(patterns)])
def test_the_cost_of_a_file_grows_with_its_size(tmp_path, name, pattern):
    _, seconds, memory = measure(tmp_path, {name: fill(*pattern), "b.txt": "flash_attn"})
    assert seconds < SECONDS and memory < MEMORY_MB, (pattern[1], seconds, memory)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TOKENS)
def test_the_cost_of_any_mixture_grows_with_its_size(tmp_path, name, seed):
    words = ("--diff", "--json", "--github", "--write")[seed % 4]
    _, seconds, memory = measure(tmp_path, {name: mixture(name, f"{name} {seed}")}, words)
    assert seconds < SECONDS and memory < MEMORY_MB, (seconds, memory)


def said(tmp_path, files, sentence):
    """Each form of the answer says it; returns the answer as JSON."""
    for number, words in enumerate(([], ["--github"], ["--diff"], ["--json"])):
        (tmp_path / str(number)).mkdir()
        text, _, _ = measure(tmp_path / str(number), files, *words)
        if words != ["--diff"]:  # it is a patch
            assert sentence in " ".join(text.split()), words
    schemas.check(text)
    assert json.loads(text)["is_complete"] is False and json.loads(text)["limits"] == [sentence]
    return json.loads(text)


def test_stops_after_a_thousand_findings_and_says_so(tmp_path):
    made = said(tmp_path, {"a.sh": "pip install flash-attn\n" * 1001},
                "There are more than 1000 findings: the rest of the project was not checked")
    assert [row["line"] for row in made["findings"]] == list(range(1, 1001))


def test_a_thousand_findings_are_all(check):
    done = check({"a.sh": "pip install flash-attn\n" * 1000}, "--json")
    assert (done.returncode, len(done.json["findings"]), done.json["limits"]) == (1, 1000, [])


def test_says_that_requirements_were_left_out(tmp_path):
    said(tmp_path, {"pyproject.toml": "[project.optional-dependencies]\na=[\n" +
                    "'torch',\n" * 4001 + "]"},
         "More than 4000 requirements on torch and flash-attn: the rest was not checked")


def test_says_that_wheels_were_not_looked_up(tmp_path):
    text = "torch==2.6.0\n" + "".join(f"flash-attn==1.0.{i}\n" for i in range(900))
    said(tmp_path, {"requirements.txt": text},
         "More than 1000 wheels had to be looked up: the rest of the project was not checked")


def test_says_that_text_was_left_out(tmp_path):
    files = {f"d{i}/requirements.txt": "x\n" * (BYTES_MAX // 2) for i in range(17)}
    said(tmp_path, files,
    "There is more than 32 MiB of text to check: some files were not read")


def test_says_that_included_files_were_left_out(tmp_path):
    files = {f"{i:03}/requirements.txt": "-r ../requirements-all.txt\n-r ../requirements.txt\n"
             for i in range(300)}
    files["requirements-all.txt"] = files["requirements.txt"] = "#\n" * (BYTES_MAX // 2)
    files = {name.replace("../", ""): text.replace("../", "") for name, text in files.items()}
    files = {f"requirements/{name.replace('/', '-')}": text for name, text in files.items()}
    said(tmp_path, files,
         "Requirements files include more than 64 MiB of text: the rest was not read")


@pytest.mark.parametrize("words", [[], ["--json"], ["--github"], ["--diff"], ["--write"]])
def test_a_project_of_many_such_files_is_cheap_enough(tmp_path, words):
    chosen = [(name, pattern) for name, patterns in PATTERNS.items() for pattern in patterns]
    chosen = random.Random(str(words)).sample(chosen, 62)
    files = {f"d{i}/{name}": fill(*pattern) for i, (name, pattern) in enumerate(chosen)}
    _, seconds, memory = measure(tmp_path, files, *words)
    assert seconds < ALL_SECONDS and memory < ALL_MEMORY_MB, (seconds, memory)


def test_many_small_files_are_cheap(tmp_path):
    files = {f"d{i % 50}/requirements{i}.txt": "".join(f"-r x{i}-{j}.txt\n" for j in range(150))
             for i in range(9000)}
    files.update({f"e{i}/flash_attn{i}.py": "import flash_attn\n" for i in range(900)})
    _, seconds, memory = measure(tmp_path, files)
    assert seconds < ALL_SECONDS and memory < ALL_MEMORY_MB, (seconds, memory)


def test_a_change_may_be_appended_to_a_last_line_without_a_newline(check):
    files = {"README.md": "# A\n\n    pip install flash-attn"}
    assert check(files, "--diff").returncode == 1
    diff = check(files, "--diff").stdout
    subprocess.run(["git", "apply", "-p1", "-"], input=diff, text=True, cwd=check.folder,
                   check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(check.folder)})
    applied = (check.folder / "README.md").read_text()
    assert check(files, "--write").returncode == 1
    assert (check.folder / "README.md").read_text() == applied


def test_a_manifest_gets_one_extra(check):
    text = '[project]\nname = "x"\ndependencies = ["torch", "flash-attn", "flash-attn>=2"]\n'
    assert check({**GUARDED, "pyproject.toml": text}, "--write").returncode == 1
    made = (check.folder / "pyproject.toml").read_text()
    assert made.count("[project.optional-dependencies]") == 1


def test_a_requirement_of_the_project_itself_adds_no_finding_of_its_own(check):
    files = {"requirements.txt": "-e .\n", "pyproject.toml":
             '[project]\nname = "x"\ndependencies = ["flash-attn"]\n'}
    assert [(row["file"], row["line"]) for row in check(files, "--json").json["findings"]] == [
        ("pyproject.toml", 3)]
