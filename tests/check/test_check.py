"""`anyflash check`: what it finds, the changes that it proposes, and hostile projects."""
import importlib.util
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import GUARDED, repaired

REQUIRED = {"requirements.txt": "numpy\nflash_attn==2.7.4.post1\ntorch==2.6.0\n"}


def test_a_project_without_flash_attn_has_nothing_to_repair(check):
    done = check({"requirements.txt": "torch==2.6.0\n"})
    assert (done.returncode, done.stdout) == (0, "This project does not name flash-attn\n")


def test_shows_file_line_reason_and_change(check):
    done = check(REQUIRED)
    assert done.returncode == 1
    assert "requirements.txt:2: flash_attn==2.7.4.post1" in done.stdout
    assert "source-build" in done.stdout and "Why:" in done.stdout and "Fix:" in done.stdout
    assert "-flash_attn==2.7.4.post1\n+flash_attn @ https://" in done.stdout


def test_names_a_wheel_for_each_python_of_the_pinned_torch(check):
    lines = repaired(check, REQUIRED)["requirements.txt"].splitlines()
    wheels = [line for line in lines if line.startswith("flash_attn @ ")]
    assert [line.split("python_version == ")[1][:6] for line in wheels] == [
        "'3.9' ", "'3.10'", "'3.11'", "'3.12'", "'3.13'"]
    assert all("torch2.6" in line and "sys_platform == 'linux'" in line for line in wheels)
    assert lines[0] == "numpy" and lines[-1] == "torch==2.6.0"


@pytest.mark.parametrize("torch, flash, expected", [
    ("torch==2.9.1", "flash-attn==2.8.3.post1", "flash-attn==2.8.3.post1+cu.12.8.torch.2.9"),
    ("torch", "flash-attn==2.8.3.post1", "flash-attn==2.8.3.post1"),
    ("torch==2.9.1", "flash-attn>=2.8", "flash-attn>=2.8")])
def test_an_index_for_several_torches_needs_the_local_version(check, torch, flash, expected):
    text = f"--extra-index-url https://wheels.astral.sh/simple/cu128/\n{torch}\n{flash}\n"
    done = check({"requirements.txt": text}, "--json").json
    assert [row["id"] for row in done["findings"]] == ["open-local"]
    check({}, "--write")
    assert (check.folder / "requirements.txt").read_text().splitlines()[2] == expected
    assert expected == flash or check({}).returncode == 0


def test_quiet_prints_a_line_for_each_finding(check):
    lines = check(REQUIRED, "-q").stdout.splitlines()
    assert len(lines) == 1 and lines[0].startswith("requirements.txt:2: source-build: ")
    assert check({"requirements.txt": "torch\n"}, "-q").stdout == ""


def test_names_the_publishers_of_community_builds(check):
    done = check({"requirements.txt": "torch==2.9.1\nflash-attn==2.8.3\n"}, "--json").json
    fix = done["findings"][0]["fix"]
    assert "mjun0812" in fix and "community builds" in fix and "mjun0812" in done["diff"]
    assert "community" not in check(REQUIRED, "--json").json["findings"][0]["fix"]


def test_the_repaired_project_has_no_finding(check, findings):
    assert findings(repaired(check, REQUIRED)) == []


def test_pins_the_nearest_flash_attn_that_has_wheels(check):
    files = {"requirements.txt": "torch==2.0.0  # old\nflash-attn==1.0.4\n"}
    assert repaired(check, files)["requirements.txt"] == (
        "torch==2.0.0  # old\nflash-attn==1.0.9\n")


def test_pins_a_torch_that_the_flash_attn_has_wheels_for(check):
    files = {"requirements.txt": "flash-attn==2.5.7\ntorch>=2.1 ; sys_platform == 'linux'\n"}
    assert repaired(check, files)["requirements.txt"].splitlines()[1] == (
        "torch==2.2.2 ; sys_platform == 'linux'")


@pytest.mark.parametrize("pins", ["torch==2.15.0\nflash-attn==2.8.3\n",
                                  "torch==2.8.0\nflash-attn==99.1\n"])
def test_what_came_out_after_the_catalog_may_have_wheels(findings, pins):
    assert findings({"requirements.txt": pins}) == ["source-build"]


def test_a_torch_of_another_folder_is_another_project(findings):
    assert findings({"a/requirements.txt": "flash-attn==1.0.4\n",
                     "b/requirements.txt": "torch==2.0.0\n"}) == ["source-build"]
    assert findings({"a/requirements-b.txt": "torch==2.0.0\n"}) == ["no-wheel"]


def test_another_pinned_package_may_decide_which_torch(findings):
    text = "flash-attn==2.5.7\ntorch\ntorchvision==0.17.2\n"
    assert findings({"requirements.txt": text}) == ["source-build"]


def test_the_wheels_are_of_a_version_that_is_asked_for(check):
    files = {"requirements.txt": "torch==2.6.0\nflash-attn>=2.5,<2.7\n"}
    assert "whl" not in repaired(check, files)["requirements.txt"]
    files = {"requirements.txt": "torch==2.6.0\nflash-attn>=2.5\n"}
    assert "whl" in repaired(check, files)["requirements.txt"]


def test_looks_at_the_pythons_that_the_project_states(findings):
    text = ('[project]\nname = "x"\nrequires-python = ">=3.9"\n'
            'dependencies = ["torch==2.2.2"]\n'
            '[project.optional-dependencies]\na = ["flash-attn==2.5.7"]\n')
    assert findings({"pyproject.toml": text}) == []
    assert findings({"pyproject.toml": text.replace(">=3.9", ">=3.9,<3.13")}) == ["no-wheel"]
    assert findings({"pyproject.toml": text.replace(">=3.9", ">=3.9,<3.12")}) == []


def test_moves_a_dependency_into_an_extra(check):
    text = ('[project]\nname = "x"\ndependencies = [\n  "torch",\n'
            '  "flash-attn>=2.6",\n]\n')
    assert repaired(check, {**GUARDED, "pyproject.toml": text})["pyproject.toml"] == (
        '[project]\nname = "x"\ndependencies = [\n  "torch",\n]\n\n'
        '[project.optional-dependencies]\nflash = ["flash-attn>=2.6"]\n')


def test_keeps_the_marker_of_what_it_moves(check):
    text = ('[project]\nname = "x"\ndependencies = [\n  "torch",\n'
            "  'flash-attn ; python_version > \"3.9\"'\n]\n")
    assert repaired(check, {**GUARDED, "pyproject.toml": text})["pyproject.toml"].endswith(
        'flash = ["flash-attn; python_version > \\"3.9\\""]\n')


def test_moves_it_into_the_table_of_extras_that_is_there(check):
    text = ('[project]\nname = "x"\ndependencies = ["torch", "flash_attn"]\n'
            '[project.optional-dependencies]\ndev = ["pytest"]\n')
    assert repaired(check, {**GUARDED, "pyproject.toml": text})["pyproject.toml"] == (
        '[project]\nname = "x"\ndependencies = ["torch", ]\n'
        '[project.optional-dependencies]\nflash = ["flash_attn"]\ndev = ["pytest"]\n')


DAO = "https://github.com/Dao-AILab/flash-attention/releases/download"
WHEEL = (f"{DAO}/v2.8.3/"
         "flash_attn-2.8.3+cu12torch2.7cxx11abiFALSE-cp312-cp312-linux_x86_64.whl")
UV = '[project]\nname = "x"\ndependencies = ["torch==2.7.0", "flash-attn"]\n[tool.uv]\n'
PINNED = UV.replace('"flash-attn"', '"flash-attn==2.8.3"').replace(
    "[tool", 'requires-python = "==3.12.*"\n[tool')
SCRIPT = ('# /// script\n# requires-python = "==3.12.*"\n# dependencies = [{}]\n# ///\n'
          + GUARDED["a.py"])
PIXI = '[workspace]\nplatforms = ["linux-64"]\n[pypi-dependencies]\n'


@pytest.mark.parametrize("name, text, expected", [
    # required, in every table that a usual installation takes
    ("pyproject.toml", '[tool.poetry.dependencies]\nflash-attn = "^2.5"\n', ["source-build"]),
    ("pyproject.toml", '[tool.poetry.group.gpu.dependencies]\nflash_attn = "*"\n',
     ["source-build"]),
    ("pyproject.toml", '[tool.poetry.group.gpu]\noptional = true\n'
     '[tool.poetry.group.gpu.dependencies]\nflash-attn = "*"\n', []),
    ("pyproject.toml", '[tool.poetry.dependencies]\n'
     'flash-attn = { version = "2.8.3", optional = true }\n', []),
    ("pyproject.toml", '[tool.poetry.dependencies]\n'
     'flash-attn = { version = "2.8.3", source = "wheels" }\n', []),
    ("pyproject.toml", '[tool.poetry.dependencies]\n'
     'flash-attn = {git = "https://github.com/Dao-AILab/flash-attention"}\n',
     ["source-build"]),
    ("pyproject.toml", '[tool.pdm.dev-dependencies]\ngpu = ["flash-attn"]\n',
     ["source-build"]),
    ("pyproject.toml", '[dependency-groups]\ndev = ["flash-attn"]\n', []),
    ("pyproject.toml", '[dependency-groups]\ndev = ["flash-attn"]\n[tool.uv]\n',
     ["source-build"]),
    ("pyproject.toml", '[dependency-groups]\ngpu = ["flash-attn"]\n[tool.uv]\n'
     'default-groups = ["gpu"]\n', ["source-build"]),
    ("setup.py", 'setup(install_requires=["torch", "flash-attn"])\n', ["source-build"]),
    ("setup.py", 'REQUIREMENTS = ["torch"]\nREQUIREMENTS += ["flash-attn"]\n',
     ["source-build"]),
    ("setup.py", 'deps = []\ndeps.append("flash-attn")\n', ["source-build"]),
    ("setup.py", 'extras = {"flash": ["flash-attn"]}\n', []),
    ("pyproject-gpu.toml", '[project]\nname = "x"\ndependencies = ["flash-attn"]\n', []),
    ("pyproject-gpu.toml", '[project]\nname = "x"\n'
     'dependencies = ["torch==2.0.0", "flash-attn==1.0.4"]\n', ["no-wheel"]),
    ("genome.yaml", "name: x\ndependencies:\n  - pip\n  - pip:\n    - torch==2.1.2\n"
     "    - flash-attn==2.3.3\n", ["source-build"]),
    ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    flash-attn>=2\n",
     ["source-build"]),
    ("setup.cfg", "[options.extras_require]\nflash = flash-attn>=2\n", []),
    ("pixi.toml", PIXI + 'flash-attn = "*"\n', ["source-build"]),
    ("pixi.toml", PIXI + 'flash-attn = "*"\n[pypi-options]\n'
     'no-build-isolation = ["flash-attn"]\n', []),
    ("pixi.toml", '[dependencies]\nflash-attn = "*"\npytorch = "2.7.*"\n', []),
    ("environment.yml", "dependencies:\n- pytorch\n- pip:\n  - flash-attn\n",
     ["source-build"]),
    ("environment.yml", "dependencies:\n- conda-forge::flash-attn=2.8.3\n- pip\n", []),
    ("environment.yml", "channels:\n- flash-attn\n", []),
    # arrangements of uv
    ("pyproject.toml", UV, ["source-build"]),
    ("pyproject.toml", PINNED + "no-build-isolation = true\n", []),
    ("pyproject.toml", UV + 'no-build-isolation-package = ["flash_attn"]\n',
     ["open-flash-attn"]),
    ("pyproject.toml", PINNED + "[tool.uv.extra-build-dependencies]\n"
     'flash-attn = [{ requirement = "torch", match-runtime = true }]\n', []),
    ("pyproject.toml", PINNED + "[tool.uv.extra-build-dependencies]\nflash-attn = ['torch']\n",
     ["build-torch"]),
    ("pyproject.toml", PINNED.replace("2.8.3", "2.7.3").replace("2.7.0", "2.5.1") +
     "[tool.uv.extra-build-dependencies]\n"
     'flash-attn = [{ requirement = "torch", match-runtime = true }]\n', ["no-metadata"]),
    ("pyproject.toml", PINNED.replace("2.8.3", "2.7.3").replace("2.7.0", "2.5.1").replace(
        "[tool.uv]", "[tool]") + "uv.extra-build-dependencies.flash-attn = "
     '[{ requirement = "torch", match-runtime = true }]\n', ["no-metadata"]),
    ("pyproject.toml", PINNED.replace("2.8.3", "2.7.3").replace("2.7.0", "2.5.1") +
     "[tool.uv.extra-build-dependencies]\n"
     'flash-attn = [{ requirement = "torch", match-runtime = true }]\n'
     '[[tool.uv.dependency-metadata]]\nname = "flash-attn"\nversion = "2.7.3.0"\n', []),
    ("pyproject.toml", UV + '[tool.uv.sources]\nflash-attn = { index = "wheels" }\n', []),
    # blocks of scripts (PEP 723)
    ("run.py", SCRIPT.format('"torch==2.7.0", "flash-attn==2.8.3"'), ["source-build"]),
    ("run.py", SCRIPT.format('"torch==2.2.0", "flash-attn==2.8.3"'), ["no-wheel"]),
    ("run.py", SCRIPT.format('"torch==2.2.0", "flash-attn==2.8.3"').replace("# ///\n", ""), []),
    ("run.py", SCRIPT.format('"torch==2.7.0"'), []),
    ("run.py", SCRIPT.format('"torch==2.2.0", "flash-attn==2.8.3"').replace(
        "# depend", "# \n# depend"), ["no-wheel"]),
    ("run.py", SCRIPT.format(f'"flash-attn @ {WHEEL}"'), []),
    ("pyproject.toml", UV + f'[tool.uv.sources]\nflash-attn = {{ url = "{WHEEL}" }}\n',
     ["one-python"]),
    ("pyproject.toml", UV.replace("]\n", ']\nrequires-python = "==3.12.*"\n', 1)
     + f'[tool.uv.sources]\nflash-attn = {{ url = "{WHEEL}" }}\n', []),
    # platforms and hosts
    ("pyproject.toml", '[project]\nname = "x"\nrequires-python = "==3.12.*"\n'
     f'dependencies = ["flash-attn @ {WHEEL}"]\n'
     'classifiers = ["Operating System :: MacOS"]\n', ["other-platform"]),
    ("pixi.toml", PIXI.replace('"]', '", "osx-arm64"]') + "[target.linux-64.pypi-dependencies]"
     '\nflash-attn = "*"\n[pypi-options]\nno-build-isolation = true\n', []),
    ("requirements.txt", WHEEL.replace("linux_x86_64", "win_amd64").replace("312", "39") +
     ' ; python_version == "3.9"\n', ["other-platform"]),
    ("requirements.txt", "flash_attn @ file:///src/flash-attention\n", ["private-url"]),
    ("requirements.txt", f"flash_attn @ {WHEEL}\n".replace("github.com", "me:pw@github.com"),
     ["private-url"]),
    ("requirements.txt", WHEEL.replace("github.com", "10.0.0.7:8080") + "\n", ["private-url"]),
])
def test_requirements_are_read_where_installers_read_them(findings, name, text, expected):
    assert findings({name: text}) == expected


def test_a_marker_limits_flash_attn_to_the_platform_with_wheels(check):
    text = ('[project]\nname = "x"\nclassifiers = ["Operating System :: MacOS"]\n'
            "dependencies = ['torch==2.7.0']\n[project.optional-dependencies]\n"
            "a = ['flash-attn==2.8.3']\n")
    assert repaired(check, {"pyproject.toml": text})["pyproject.toml"].endswith(
        "a = ['flash-attn==2.8.3 ; sys_platform == \"linux\" and "
        "platform_machine == \"x86_64\"']\n")


def test_the_nearest_pins_have_wheels_for_the_platforms_of_the_project(check):
    text = ('[project]\nname = "x"\nrequires-python = "==3.10.*"\n'
            'dependencies = ["torch==2.6.0"]\n'
            '[project.optional-dependencies]\na = ["flash-attn==1.0.9"]\n')
    linux = repaired(check, {"pyproject.toml": text})["pyproject.toml"]
    text += '[tool.uv]\nenvironments = ["sys_platform == \'win32\'"]\n'
    windows = repaired(check, {"pyproject.toml": text})["pyproject.toml"]
    assert re.search(r"flash-attn==2\.\d", linux) and re.search(r"flash-attn==2\.\d", windows)


def test_a_dependency_of_poetry_becomes_an_extra(check):
    text = '[tool.poetry.dependencies]\nflash-attn = "^2.5"  # fast\ntorch = "^2.1"\n'
    assert repaired(check, {**GUARDED, "pyproject.toml": text})["pyproject.toml"] == (
        '[tool.poetry.dependencies]\nflash-attn = { version = "^2.5", optional = true }  # fast'
        '\ntorch = "^2.1"\n\n[tool.poetry.extras]\nflash = ["flash-attn"]\n')


def test_pip_in_a_conda_environment_gets_the_wheel_for_its_python(check):
    text = ("dependencies:\n  - python=3.10\n  - pip:\n      - torch==2.6.0\n"
            "      - flash-attn==2.7.4.post1\n")
    lines = repaired(check, {"environment.yml": text})["environment.yml"].splitlines()
    assert len(lines) == 5 and lines[4].startswith("      - flash-attn @ https://")
    assert "cp310" in lines[4]


def test_what_no_source_uses_may_be_needed_by_another_file(check):
    files = {"requirements.txt": "torch==2.6.0\nflash-attn\n", "a.py": "import os\n"}
    done = check(files, "--json").json["findings"]
    assert ("never-imported", "remark") in [(row["id"], row["severity"]) for row in done]
    assert "flash" in repaired(check, files)["requirements.txt"]


@pytest.mark.parametrize("source", [
    "attn_implementation='flash_attention_2'\n",
    "try:\n    import flash_attn\nexcept ImportError:\n    pass\n"])
def test_a_package_that_another_one_uses_is_not_unused(findings, source):
    assert findings({**REQUIRED, "a.py": source}) == ["source-build"]


def test_a_wheel_for_one_python_gets_its_siblings(check):
    url = ("https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
           "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl")
    files = {"requirements.txt": f"torch==2.8.0\nflash-attn @ {url}\n"}
    done = check(files)
    assert "one-python" in done.stdout and "it is for Python 3.12" in done.stdout
    assert repaired(check, files)["requirements.txt"].count("python_version") == 5
    only = {"requirements.txt": files["requirements.txt"],
            "pyproject.toml": '[project]\nname = "x"\nrequires-python = "==3.12.*"\n'}
    assert check(only).returncode == 0


def test_a_wheel_for_another_torch_is_found(check):
    url = ("https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
           "flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl")
    done = check({"requirements.txt": f"torch==2.7.1\n{url}\n"})
    assert "other-torch" in done.stdout
    assert "for torch 2.8, the project pins 2.7.1" in " ".join(done.stdout.split())


@pytest.mark.parametrize("torch, wheel, expected", [
    ("torch==2.6.0", "2.7.4.post1+cu12torch2.6cxx11abiTRUE", ["other-torch"]),
    ("torch==2.6.0", "2.7.4.post1+cu12torch2.6cxx11abiFALSE", []),
    ("torch==2.6.0+cu126", "2.7.4.post1+cu12torch2.6cxx11abiTRUE", []),
    ("-i https://example.invalid/whl/cu126\ntorch==2.6.0",
     "2.7.4.post1+cu12torch2.6cxx11abiTRUE", []),
    # labelled FALSE, built with the other ABI
    ("torch==2.6.0", "2.8.0.post2+cu12torch2.6cxx11abiFALSE", ["other-torch"]),
    ("torch==2.7.0", "2.8.0.post2+cu12torch2.7cxx11abiFALSE", [])])
def test_a_wheel_with_the_other_cxx_abi_is_found(findings, torch, wheel, expected):
    url = f"{DAO}/v{wheel.split('+')[0]}/flash_attn-{wheel}-cp312-cp312-linux_x86_64.whl"
    files = {"requirements.txt": f'{torch}\n{url} ; python_version == "3.12"\n'}
    assert findings(files) == expected


@pytest.mark.parametrize("name, text, expected", [
    ("README.md", "```\npip install flash-attn\n```\n", ["bare-command"]),
    ("README.md", "  $ python3 -m pip install 'flash-attn>=2'\n", ["bare-command"]),
    ("README.md", "`pip install flash-attn` compiles for hours.\n", []),
    ("README.md", "```\n$ anyflash plan\n  pip install flash-attn\n```\n", []),
    ("README.md", "```\n$ a\nb\n```\n\n```\npip install flash-attn\n```\n", ["bare-command"]),
    ("README.md", "```\n$ a\nb\n$ pip install flash-attn\n```\n", ["bare-command"]),
    ("README.md", "But pip install flash-attn fails.\n", []),
    ("README.md", "pip install --no-index -f wheels/ flash-attn\n", []),
    ("README.md", "Do not install flash-attn by pip.", []),
    ("docs/other.md", "pip install flash-attn\n", []),
    ("a.sh", "# pip install flash-attn\necho\n", []),
    ("a.sh", "pip install \\\n  flash-attn --no-build-isolation\npip install torch\n",
     ["torch-after"]),
    ("a.sh", "pip install torch flash-attn --no-build-isolation; pip install torch",
     ["torch-after"]),
    ("Dockerfile", "FROM python:3.12\nRUN uv pip install flash-attn==2.8.3\n", ["no-nvcc"]),
    (".github/workflows/a.yml", "      - run: pip install flash-attn\n", ["bare-command"]),
])
def test_a_page_and_a_script_with_commands_are_read(findings, name, text, expected):
    assert findings({name: text}) == expected


def test_a_command_on_a_page_gets_the_option(check):
    page = "# A\n\n1. Setup\n   ```\n   pip install torch\n   pip install flash-attn\n   ```\n"
    assert repaired(check, {"README.md": page})["README.md"] == page.replace(
        "install flash-attn", "install --no-build-isolation flash-attn")


@pytest.mark.parametrize("name, text, line", [
    ("setup.sh", "pip install torch==2.6.0\npip install flash-attn==2.3.6 "
     "--no-build-isolation\n", 2),
    ("README.md", "    pip install torch==2.6.0 torchvision\n\nThen:\n\n"
     "    MAX_JOBS=4 pip install flash_attn==2.3.6\n", 5),
    ("Dockerfile", "FROM nvidia/cuda:12.8.0-devel\nRUN pip install torch==2.6.0 && \\\n"
     "    pip install flash-attn==2.3.6 --no-build-isolation\n", 3),
    ("a.ipynb", '{"cells": [{"source": [\n "!pip install torch==2.6.0\\n",\n'
     ' "!pip install flash-attn==2.3.6 --no-build-isolation\\n"\n]}]}\n', 3),
    ("app.py", "image = (modal.Image.debian_slim()\n    .pip_install('torch==2.6.0', \"x\")\n"
     "    .pip_install('flash-attn==2.3.6', extra_options='--no-build-isolation'))\n", 3),
    ("Makefile", "all:\n\tpip install torch==2.6.0\n\tpip install flash-attn==2.3.6\n", 3)])
def test_pins_in_commands_are_looked_up(check, name, text, line):
    done = check({name: text}, "--json").json
    assert [(row["id"], row["line"]) for row in done["findings"]] == [("no-wheel", line)]


def test_a_call_of_modal_builds(findings):
    text = 'image.pip_install("torch").pip_install("flash-attn",{})\n'
    assert findings({"a.py": text.format("")}) == ["bare-command"]
    assert findings({"a.py": text.format('extra_options="--no-build-isolation"')}) == []


def test_a_repository_in_a_command_is_built(findings):
    command = "pip install git+https://github.com/Dao-AILab/flash-attention.git@v2.6.3"
    assert findings({"a.sh": f"pip install torch\n{command}\n"}) == ["bare-command"]
    assert findings({"a.sh": f"pip install torch\n{command} --no-build-isolation\n"}) == []


@pytest.mark.parametrize("first", ["vllm==0.8.5", "torchvision", "lightning>=2"])
def test_a_package_that_needs_torch_brings_it(findings, first):
    text = (f"pip install {first}\npip install flash-attn --no-build-isolation\n"
            "pip install torch\n")
    assert findings({"a.sh": text}) == []


def test_a_runtime_image_becomes_a_devel_image(check):
    files = {"Dockerfile": "FROM nvidia/cuda:12.8.0-cudnn-runtime-ubuntu24.04 AS a\n"
                           "RUN pip install torch && pip install flash-attn "
                           "--no-build-isolation\n"}
    assert repaired(check, files)["Dockerfile"].startswith(
        "FROM nvidia/cuda:12.8.0-cudnn-devel-ubuntu24.04 AS a\n")


LIMITED = ['dependencies = ["torch", "torchvision==0.24.0", "flash-attn"]\n[tool.uv]\n',
           'dependencies = ["torch", "flash-attn"]\n[project.optional-dependencies]\n'
           'cu = ["torch==2.9.0"]\n[tool.uv]\n',
           'dependencies = ["torch", "flash-attn"]\n[tool.uv]\n'
           'constraint-dependencies = ["torch>=2.9"]\n',
           'dependencies = ["torch", "flash-attn"]\n[dependency-groups]\n'
           'dev = ["torchaudio==2.9.0"]\n[tool.uv]\n',
           'dependencies = ["torch", "torch==2.9.0; sys_platform==\'darwin\'", "flash-attn"]\n'
           "[tool.uv]\n"]


@pytest.mark.parametrize("text", LIMITED)
def test_torch_is_not_pinned_against_another_requirement(check, text):
    text = ('[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.10"\n' + text +
            'no-build-isolation-package = ["flash-attn"]\n')
    check({"pyproject.toml": text}, "--write")
    assert (check.folder / "pyproject.toml").read_text() == text


def test_a_constraint_on_torch_is_not_contradicted(check):
    text = "torch\n-c constraints.txt\nflash-attn==2.5.8\n"
    files = {"requirements.txt": text, "constraints.txt": "torch==2.9.0\n"}
    check(files, "--write")
    assert (check.folder / "requirements.txt").read_text() == text


def test_only_the_tag_of_an_image_is_changed(check):
    text = ("FROM --platform=linux/amd64 nvidia/cuda-base:12.8.0-runtime-ubuntu24.04 AS "
            "app-runtime\nRUN pip install torch && pip install flash-attn "
            "--no-build-isolation\nFROM scratch\nCOPY --from=app-runtime /x /x\n")
    assert repaired(check, {"Dockerfile": text})["Dockerfile"] == text.replace(
        "12.8.0-runtime", "12.8.0-devel")
    text = "FROM x AS app-base\nFROM app-base AS app-runtime\nRUN pip install flash-attn\n"
    assert "no-nvcc" not in check({"Dockerfile": text}).stdout


# ---- what the project says of the check ----

def test_a_line_or_the_project_can_ignore_findings(check):
    files = {"requirements.txt": "torch\nflash-attn  # anyflash: ignore\n",
             "README.md": "pip install torch\n"
                          "pip install flash-attn <!-- anyflash: ignore -->\n"}
    done = check(files, "--json")
    assert (done.returncode, done.json["findings"], done.json["ignored"]) == (0, [], 2)
    files = {"requirements.txt": "torch\nflash-attn\n", "README.md": "",
             "pyproject.toml": '[tool.anyflash]\nignore = ["source-build"]\n'}
    assert check(files).returncode == 0
    for wrong in ('ignore = 3', 'ignore = "source-build"', "exclude = [1]"):
        files["pyproject.toml"] = f"[tool.anyflash]\n{wrong}\n"
        assert "not an array of strings" in check(files).stderr
    files["pyproject.toml"] = '[tool.anyflash]\nignore = ["sorce-build"]\n'
    done = check(files)
    assert done.returncode == 2 and "no finding 'sorce-build'" in done.stderr


def test_what_is_not_the_projects_own_is_left_out(findings):
    files = {"third_party/a/requirements.txt": "flash-attn\n",
             "own/requirements.txt": "torch\nflash-attn\n"}
    assert findings(files) == ["source-build"]
    files["pyproject.toml"] = '[tool.anyflash]\nexclude = ["own"]\n'
    assert findings(files) == []


def test_files_can_be_named(check):
    files = {"a.sh": "pip install torch\npip install flash-attn\n", "requirements.txt":
             "torch\nflash-attn\n", "b.py": "flash_attn = None\n"}
    check(files)
    for names, expected in ((["a.sh"], ["bare-command"]), (["./requirements.txt", "b.py"],
                                                           ["source-build"]), (["b.py"], [])):
        done = subprocess.run([os.environ["ANYFLASH"], "check", "--json", *names],
                              capture_output=True, text=True, cwd=check.folder, check=False)
        assert [row["id"] for row in json.loads(done.stdout)["findings"]] == expected


def test_only_changes_that_are_shown_are_tried(check):
    """The findings of other files stay as they are: a change must not lean on one of them."""
    text = ('[project]\nname = "x"\nrequires-python = ">=3.10"\n'
            'dependencies = ["flash-attn>=2.8.3"]\n'
            "[tool.uv.extra-build-dependencies]\nflash-attn = ['torch==2.7.0']\n")
    files = {"pyproject.toml": text, "a.sh": "pip install torch\npip install flash-attn\n"}
    check(files)
    diff = subprocess.run([os.environ["ANYFLASH"], "check", "--diff", "a.sh"], text=True,
                          capture_output=True, cwd=check.folder, check=False).stdout
    assert "b/a.sh" in diff and "pyproject" not in diff
    files = {"pyproject.toml": text + '[tool.anyflash]\nignore = ["build-torch"]\n'}
    assert "pyproject" not in check(files, "--diff").stdout


def test_without_git_a_patch_takes_the_changes_back(check):
    files = {"requirements.txt": "torch\r\nflash-attn==2.8.3  # fast\r\n", **GUARDED}
    assert check(files, "--write").returncode == 1
    made = (check.folder / "requirements.txt").read_bytes()
    assert b"# flash-attn==2.8.3  # fast\r\n" in made
    assert made.count(b"\r\n") == made.count(b"\n")
    subprocess.run(["patch", "-R", "-p1", "--binary", "-i", "anyflash-check.patch"], check=True,
                   cwd=check.folder, stdout=subprocess.DEVNULL)
    made = (check.folder / "requirements.txt").read_bytes()
    assert made == files["requirements.txt"].encode()


# ---- forms of the answer ----

def test_the_diff_is_one_that_git_applies(check):
    files = {**REQUIRED, "a.py":
             "from flash_attn import flash_attn_func as f\n\nX = f(1, 2, 3)\n",
             "pyproject.toml": '[tool.poetry.dependencies]\nflash-attn = "*"\n',
             "b/c.py": "import flash_attn\nfrom flash_attn import "
             "flash_attn_func\n", "no newline.sh": "pip install torch\npip install flash-attn"}
    diff = check(files, "--diff").stdout
    subprocess.run(["git", "apply", "-p1", "-"], input=diff, text=True, cwd=check.folder,
                   check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(check.folder)})
    applied = {name: (check.folder / name).read_text() for name in files}
    assert applied == repaired(check, files)


def test_write_keeps_line_ends_and_permissions(check):
    files = {"a.sh": "pip install torch\r\npip install flash-attn\r\n"}
    check(files)
    (check.folder / "a.sh").chmod(0o750)
    assert check({}, "--write").returncode == 1
    assert (check.folder / "a.sh").read_bytes() == (
        b"pip install torch\r\npip install --no-build-isolation flash-attn\r\n")
    assert (check.folder / "a.sh").stat().st_mode & 0o777 == 0o750


def test_without_write_nothing_changes(check):
    for words in ([], ["--diff"], ["--json"], ["--github"]):
        check(REQUIRED, *words)
        assert (check.folder / "requirements.txt").read_text() == REQUIRED["requirements.txt"]


def test_github_annotations_name_file_and_line(check):
    done = check({"a,b:c/requirements.txt": "flash-attn\n"}, "--github")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "::warning file=a%2Cb%3Ac/requirements.txt,line=1,title=source-build::flash-attn is ")
    assert done.stdout.count("\n") == 1


def test_github_annotations_are_one_line_each(check):
    done = check({"100%\r\n::error::a/requirements.txt": "flash-attn\n"}, "--github")
    assert done.stdout.count("\n") == 1 and "file=100%25" in done.stdout


def test_a_normal_project_fits_one_screen(check):
    assert check(REQUIRED).stdout.count("\n") <= 24


@pytest.mark.parametrize("words, code", [(["--fallback", "eager"], 2), ([".", "b"], 2)])
def test_wrong_words(check, words, code):
    assert check({}, *words).returncode == code


def test_a_folder_that_is_missing(check):
    done = subprocess.run([os.environ.get("ANYFLASH", "anyflash"), "check", "nowhere"],
                          capture_output=True, text=True)
    assert done.returncode == 3 and "'nowhere' does not exist" in done.stderr


# ---- hostile projects ----

def test_large_binary_and_unreadable_files_are_left_out(check):
    files = {"requirements.txt": b"flash-attn\n" * 1000000,
             "a/requirements.txt": b"flash-attn\0",
             "b/requirements.txt": b"\xff\xfe\x80flash-attn\n",
             "c/requirements.txt": "flash-attn\n"}
    done = check(files, "--json")
    assert [row["file"] for row in done.json["findings"]] == ["c/requirements.txt"]
    assert "could not be read" in done.stderr


def test_links_are_not_followed(check, tmp_path):
    (tmp_path / "outside.txt").write_text("flash-attn\n")
    (check.folder / "requirements.txt").symlink_to(tmp_path / "outside.txt")
    (check.folder / "loop").symlink_to(".")
    (check.folder / "self").symlink_to("self")
    (check.folder / "all").symlink_to("/")
    os.mkfifo(check.folder / "requirements-pipe.txt")
    assert check({}).stdout == "This project does not name flash-attn\n"


def test_environments_and_dependencies_are_not_the_project(findings):
    text = "flash-attn\n"
    assert findings({".git/requirements.txt": text, "env/pyvenv.cfg": "", "env/setup.sh": text,
                     "env/requirements.txt": text, "node_modules/x/requirements.txt": text,
                     ".venv/requirements.txt": text}) == []


def test_files_that_include_each_other_are_read_once(findings):
    again = "-r requirements-b.txt\n-r /etc/passwd\n-r requirements-b.txt\n"
    assert findings({"requirements.txt": again, "requirements-b.txt":
                     "flash-attn\n-r requirements.txt\n"}) == ["source-build"]


def test_control_characters_do_not_reach_the_terminal(check):
    done = check({"requirements.txt": "flash-attn  # \x1b[31m\x07\n"})
    assert not {"\x1b", "\x07"} & set(done.stdout) and "\\x1b[31m" in done.stdout


def test_malformed_toml_and_python_are_no_error(check):
    assert check({"pyproject.toml": "[project\nflash-attn", "a.py": "((('''flash_attn",
                  "setup.py": "install_requires=['flash-attn"}).returncode in (0, 1)


def test_many_files_end_soon(check):
    for i in range(120):
        (check.folder / str(i)).mkdir()
        for j in range(100):
            (check.folder / str(i) / f"{j}.py").touch()
    done = check({"99/requirements.txt": "flash-attn\n", "requirements.txt": "flash-attn\n",
                  "build/requirements.txt": "flash-attn\n"}, "--json")
    assert [row["file"] for row in done.json["findings"]] == ["requirements.txt"]
    assert done.json["is_complete"] is False
    assert "more than 10000 files" in check({}).stdout
    assert check({}, "--github").stdout.startswith("::notice::There are more than 10000 files")


def test_what_tools_made_does_not_count_as_files(check):
    for i in range(10050):
        path = check.folder / ("build", "dist", "node_modules", "a.egg-info", ".git")[i % 5]
        path.mkdir(exist_ok=True)
        (path / f"{i}.py").touch()
    done = check({"z/requirements.txt": "flash-attn\n"}, "--json")
    assert done.json["is_complete"] and len(done.json["findings"]) == 1


# ---- where it runs by itself ----

def test_the_hook_and_the_action_call_commands_that_exist(check):
    root = Path(__file__).resolve().parents[2]
    hook = (root / ".pre-commit-hooks.yaml").read_text()
    assert "entry: anyflash check\n" in hook
    pattern = re.search(r"files: (.*)", hook)[1]
    assert all(re.search(pattern, name) for name in (
        "requirements.txt", "requirements/gpu.txt", "pyproject.toml", "a/setup.py",
        "Dockerfile", "docker/Dockerfile.gpu", "install.sh", "README.md", "pixi.toml",
        "setup.cfg", "environment.yml", ".github/workflows/test.yml"))
    assert not re.search(pattern, "a.c")
    action = (root / "action.yml").read_text()
    assert action.count("required: true") == 1 and action.count("default:") == 1
    words = re.search(r"anyflash\" check (.*) \"", action)[1]
    assert check(REQUIRED, *words.split()).stdout.startswith("::warning ")


def run_action(folder, package):
    root = Path(__file__).resolve().parents[2]
    lines = (root / "action.yml").read_text().split("      run: |\n")[1].splitlines()
    script = "\n".join(line[8:] for line in lines)
    return subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, env={
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "RUNNER_TEMP": str(folder),
        "CHECK_PATH": str(folder), "CHECK_PACKAGE": package})


@pytest.mark.parametrize("package", ["", "anyflash", "anyflash==0.1.0", "http://a/b.whl\nx"])
def test_the_action_installs_nothing_by_its_name(tmp_path, package):
    done = run_action(tmp_path, package)
    assert done.returncode == 2 and done.stdout.startswith("::error::package must be the URL")
    assert list(tmp_path.iterdir()) == []


def test_the_action_runs_the_program_of_a_wheel(tmp_path):
    pytest.importorskip("ensurepip", reason="needs the module venv")
    wheel = tmp_path / "anyflash-0.1.0-py3-none-any.whl"
    name, program = "anyflash-0.1.0", os.path.abspath(os.environ.get("ANYFLASH", "anyflash"))
    with zipfile.ZipFile(wheel, "w") as archive:
        script = zipfile.ZipInfo(f"{name}.data/scripts/anyflash")
        script.external_attr = 0o100755 << 16
        archive.writestr(script, f'#!/bin/sh\nexec {program} "$@"\n')
        archive.writestr(f"{name}.dist-info/METADATA",
                         "Metadata-Version: 2.1\nName: anyflash\nVersion: 0.1.0\n")
        archive.writestr(f"{name}.dist-info/WHEEL",
                         "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")
    (tmp_path / "requirements.txt").write_text("flash-attn\n")
    done = run_action(tmp_path, str(wheel))
    assert done.stdout.startswith("::warning file=requirements.txt"), done.stderr
