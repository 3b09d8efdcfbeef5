"""Blocks of metadata: a script's own (PEP 723), and the one that is written for uv."""
import re
import tomllib

import pytest
from conftest import GUARDED, repaired
from test_check import PINNED, SCRIPT, UV


def test_a_script_and_the_project_around_it_have_their_own_torch(findings):
    """The torch of the one says nothing about the wheel of the other."""
    script = SCRIPT.format('"torch==2.2.0"')
    manifest = UV.replace(', "flash-attn"', "") + "[project.optional-dependencies]\n"
    assert findings({"run.py": script, "requirements-gpu.txt": "flash-attn==2.8.3\n"}) == []
    assert findings({"run.py": SCRIPT.format('"torch==2.6.0", "flash-attn==2.8.3"'),
                     "requirements-gpu.txt": "",
                     "pyproject.toml": manifest.replace("2.7.0", "2.2.0")}) == ["source-build"]


@pytest.mark.parametrize("version", ["2.5.8", "2.7.3"])
@pytest.mark.parametrize("tail", ["", "[[tool.uv.dependency-metadata]]\nname = 'x'\n",
                                  "[tool.black]\nline-length = 1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_metadata_is_added_as_config_writes_it(check, version, tail, newline):
    """One block behind those that are there, with what that version's setup.py requires."""
    text = (PINNED.replace("2.8.3", version).replace("2.7.0", "2.5.1") +
            "[tool.uv.extra-build-dependencies]\n"
            'flash-attn = [{ requirement = "torch", match-runtime = true }]\n' + tail)
    made = repaired(check, {"pyproject.toml": text.replace("\n", newline)}, "--quiet")
    blocks = tomllib.loads(made["pyproject.toml"])["tool"]["uv"]["dependency-metadata"]
    early = ["packaging", "ninja"] if version == "2.5.8" else []
    assert blocks[-1] == {"name": "flash-attn", "version": version,
                          "requires-dist": ["torch", "einops", *early]}
    assert len(blocks) == 1 + tail.startswith("[[")


def test_a_script_states_nothing_for_the_project_and_takes_nothing_from_it(check, findings):
    """Its torch is not the project's, and the project's Pythons are not its own."""
    script = SCRIPT.format('"torch", "flash-attn==2.5.8"').replace(
        '# requires-python = "==3.12.*"\n', "")
    manifest = '[project]\nname = "x"\nrequires-python = "{}"\ndependencies = ["numpy"{}]\n'
    alone = findings({"run.py": script})
    assert findings({"pyproject.toml": manifest.format("==3.12.*", "")}) == alone
    done = check({"pyproject.toml": manifest.format(">=3.10", ', "flash-attn==2.5.8"'),
                  **GUARDED}, "--diff")
    assert "pyproject.toml" not in done.stdout


@pytest.mark.parametrize("asked", ["torch[opt-einsum]", "torch [opt-einsum]", "torch"])
def test_a_pin_stands_behind_the_extras(check, asked):
    made = repaired(check, {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\n'
                            f'dependencies = ["{asked}", "flash-attn==2.5.8"]\n'}, "--quiet")
    pinned = tomllib.loads(made["pyproject.toml"])["project"]["dependencies"][0]
    assert re.fullmatch(re.escape(asked) + r"==[\d.]+", pinned), pinned
