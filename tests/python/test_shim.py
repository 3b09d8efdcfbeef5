"""`anyflash shim`: what it installs into an environment, when it refuses, and how it is
removed."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import venv

import pytest

from anyflash import shim
from anyflash.shim import _files

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Environment:
    """A virtual environment with this package and an empty torch."""

    def __init__(self, folder):
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder, self.python = folder, str(folder / "bin" / "python")
        self.site = next(folder.glob("lib/python3*/site-packages"))
        self.stand_in = folder / "stand-in"
        (self.stand_in / "torch").mkdir(parents=True)
        (self.stand_in / "torch" / "__init__.py").write_text("")
        (self.site / "these.pth").write_text(f"{ROOT / 'python'}\n{self.stand_in}\n")

    def run(self, code):
        done = subprocess.run(
            [self.python, "-I", "-c", code], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def files(self):
        return sorted(
            str(path.relative_to(self.site))
            for path in self.site.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )

    def add_distribution(self, name, version, installer, modules):
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        )
        (info / "INSTALLER").write_text(installer)
        rows = []
        for path, text in modules.items():
            (self.site / path).parent.mkdir(parents=True, exist_ok=True)
            (self.site / path).write_text(text)
            rows.append(f"{path},,\n")
        (info / "RECORD").write_text("".join(rows))


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "env")


def test_installing_and_removing_leaves_what_was_there(environment):
    before = environment.files()
    assert shim.install(environment.python)["installed"]
    assert environment.files() != before
    assert not shim.remove(environment.python)["installed"]
    assert environment.files() == before
    assert not list(environment.site.glob(_files.STAGING + "*"))


def test_status_says_what_is_there(environment):
    assert shim.status(environment.python)["installed"] is False
    shim.install(environment.folder)
    answer = shim.status(environment.folder)
    assert (answer["installed"], answer["version"], answer["changed"]) == (True, "2.8.3", [])
    changed = environment.site / "flash_attn" / "bert_padding.py"
    changed.write_text("")
    assert shim.status(environment.folder)["changed"] == [str(changed)]


def test_metadata_is_what_consumers_ask_for(environment):
    shim.install(environment.python)
    code = (
        "import importlib.metadata as m, importlib.util as u, json; "
        "print(json.dumps([m.version('flash_attn'), m.version('flash-attn'), "
        "m.metadata('flash-attn')['Name'], "
        "m.distribution('flash-attn').read_text('INSTALLER'), "
        "u.find_spec('flash_attn') is not None]))"
    )
    assert json.loads(environment.run(code)) == [
        "2.8.3",
        "2.8.3",
        "flash-attn",
        "anyflash\n",
        True,
    ]
    if sys.version_info >= (3, 10):
        code = (
            "import importlib.metadata as m; print(m.packages_distributions()['flash_attn'])"
        )
        assert environment.run(code) == "['flash-attn']"


def test_record_lists_every_file_with_its_hash(environment):
    shim.install(environment.python)
    recorded = _files._recorded(environment.site)
    there = {environment.site / name for name in environment.files()}
    assert set(recorded) == there - {environment.site / "these.pth"}
    assert _files.changed(environment.site) == []
    hashless = [path.name for path, digest in recorded.items() if not digest]
    assert hashless == ["RECORD"]


def test_flashattention_3s_module_comes_only_on_request(environment):
    before = environment.files()
    assert shim.install(environment.python)["fa3"] is False
    assert (environment.site / "flash_attn/flash_attn_interface.py").is_file()
    assert not (environment.site / _files.INTERFACE).exists()
    assert shim.install(environment.python, fa3=True)["fa3"] is True
    recorded = _files._recorded(environment.site)
    assert environment.site / _files.INTERFACE in recorded
    found = "import importlib.util as u; print(u.find_spec('flash_attn_interface').origin)"
    assert environment.run(found) == str(environment.site / _files.INTERFACE)
    assert shim.install(environment.python)["fa3"] is False
    assert not (environment.site / _files.INTERFACE).exists()
    shim.install(environment.python, fa3=True)
    shim.remove(environment.python)
    assert environment.files() == before


@pytest.mark.parametrize("path", [
    "flash_attn_interface.py", "flash_attn_interface/__init__.py"])
def test_a_real_flashattention_3_stays(environment, path):
    environment.add_distribution("flash_attn_3", "3.0.0", "pip", {path: "real = 1\n"})
    before = environment.files()
    with pytest.raises(shim.Refused) as refused:
        shim.install(environment.python, fa3=True)
    assert "flash_attn_interface that anyflash did not install" in str(refused.value)
    assert environment.files() == before
    shim.install(environment.python)
    shim.remove(environment.python)
    assert environment.files() == before


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_uv_and_pip_can_uninstall_it(environment, tool):
    if tool == "uv" and shutil.which("uv") is None:
        pytest.skip("needs uv: pip install uv")
    before = environment.files()
    shim.install(environment.python)
    command = ["uv", "pip", "uninstall", "--python", environment.python, "flash-attn"]
    if tool == "pip":
        head = [sys.executable, "-m", "pip", "--python", environment.python]
        if subprocess.run([*head, "--version"], capture_output=True).returncode != 0:
            pytest.skip("needs pip 22.3 or newer, which knows --python")
        command = [*head, "uninstall", "-y", "flash-attn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert environment.files() == before


def test_a_working_flash_attn_is_left_alone(environment):
    environment.add_distribution(
        "flash_attn", "2.7.4", "pip", {"flash_attn/__init__.py": "__version__ = '2.7.4'\n"}
    )
    before = environment.files()
    with pytest.raises(shim.Refused, match="flash-attn 2.7.4 .* can be imported"):
        shim.install(environment.python)
    assert environment.files() == before


def test_a_broken_flash_attn_is_named_with_its_cause_and_left_alone(environment):
    environment.add_distribution(
        "flash_attn", "2.7.4", "pip",
        {"flash_attn/__init__.py": "raise ImportError('undefined symbol: _ZN3c105x')\n"},
    )
    before = environment.files()
    with pytest.raises(shim.Refused, match="broken: .*undefined symbol") as refused:
        shim.install(environment.python)
    assert "uv pip uninstall" in refused.value.hint
    assert environment.files() == before


def test_a_printed_command_is_quoted(tmp_path):
    unusual = Environment(tmp_path / "it's $(here); & there")
    shutil.rmtree(unusual.stand_in / "torch")
    with pytest.raises(shim.Refused) as refused:
        shim.install(unusual.python)
    command = refused.value.hint.split("`")[1]
    words = ["uv", "pip", "install", "--python", str(unusual.folder), "torch"]
    assert shlex.split(command) == words
    (unusual.stand_in / "torch").mkdir()
    (unusual.stand_in / "torch" / "__init__.py").write_text("")
    broken = {"flash_attn/__init__.py": "raise ImportError('undefined symbol')\n"}
    unusual.add_distribution("flash_attn", "2.7.4", "pip", broken)
    with pytest.raises(shim.Refused) as refused:
        shim.install(unusual.python)
    command = refused.value.hint.split("`")[1]
    words = ["uv", "pip", "uninstall", "--python", unusual.python, "flash-attn"]
    assert shlex.split(command) == words


def test_a_module_of_another_distribution_is_left_alone(environment):
    environment.add_distribution(
        "flash_attn_4", "4.0.0", "uv", {"flash_attn/cute/__init__.py": ""}
    )
    before = environment.files()
    with pytest.raises(shim.Refused, match="a module flash_attn that anyflash did not install"):
        shim.install(environment.python)
    assert environment.files() == before


def test_removing_leaves_files_that_others_put_beside_it(environment):
    shim.install(environment.python)
    environment.add_distribution(
        "flash_attn_4", "4.0.0", "uv", {"flash_attn/cute/__init__.py": ""}
    )
    shim.remove(environment.python)
    assert [name for name in environment.files() if name.startswith("flash_attn/")] == [
        "flash_attn/cute/__init__.py"
    ]


@pytest.mark.parametrize("row", ["{victim}", "../victim/file.py", "flash_attn/../other.py",
                                 "other.py", "flash_attn/link/file.py", "flash_attn/cute",
                                 "flash_attn/.."])
def test_removing_touches_no_file_that_a_changed_record_names(environment, row):
    victim = environment.site.parent / "victim" / "file.py"
    victim.parent.mkdir()
    victim.write_text("mine\n")
    (environment.site / "other.py").write_text("mine\n")
    shim.install(environment.python)
    (environment.site / "flash_attn" / "link").symlink_to(victim.parent)
    environment.add_distribution(
        "flash_attn_4", "4.0.0", "uv", {"flash_attn/cute/__init__.py": ""}
    )
    record = environment.site / _files.INFO / "RECORD"
    record.write_text(record.read_text() + row.format(victim=victim) + ",,\n")
    assert not shim.remove(environment.python)["installed"]
    assert victim.read_text() == (environment.site / "other.py").read_text() == "mine\n"
    assert (environment.site / "flash_attn/cute/__init__.py").is_file()
    assert not (environment.site / "flash_attn/bert_padding.py").exists()


def test_removing_what_is_not_there_is_refused(environment):
    with pytest.raises(shim.Refused, match="there is no shim"):
        shim.remove(environment.python)


def test_installing_again_makes_it_anew(environment):
    shim.install(environment.python)
    (environment.site / "flash_attn" / "bert_padding.py").unlink()
    assert shim.install(environment.python)["changed"] == []
    assert not list(environment.site.glob(_files.STAGING + "*"))


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_failed_install_leaves_what_was_there(environment, monkeypatch, fails_at):
    shim.install(environment.python)
    note = environment.site / "flash_attn" / "utils" / "distributed.py"
    note.write_text("# the old one\n")
    rename, done = os.rename, []

    def failing(source, target):
        done.append(target)
        if len(done) == fails_at:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError):
        shim.install(environment.python)
    monkeypatch.undo()
    assert note.read_text() == "# the old one\n"
    assert shim.status(environment.python)["changed"] == [str(note)]
    assert not list(environment.site.glob(_files.STAGING + "*"))


def test_an_install_that_was_cut_off_is_cleared_by_the_next(environment):
    """Killed between two renames, so that the package is there without its metadata."""
    before = environment.files()
    shim.install(environment.python)
    shutil.rmtree(environment.site / _files.INFO)
    (environment.site / (_files.STAGING + "left")).mkdir()
    assert "interrupted" in shim.status(environment.python)["other"]
    assert shim.install(environment.python)["installed"]
    shutil.rmtree(environment.site / _files.INFO)
    shim.remove(environment.python)
    assert environment.files() == before


def test_without_torch_it_is_refused(environment):
    shutil.rmtree(environment.stand_in / "torch")
    with pytest.raises(shim.Refused, match="has no torch") as refused:
        shim.install(environment.python)
    assert "uv pip install" in refused.value.hint


def test_what_is_no_environment_is_refused(tmp_path):
    with pytest.raises(shim.Refused, match="is neither an interpreter nor an environment"):
        shim.install(tmp_path)
    liar = tmp_path / "python"
    liar.write_text("#!/bin/sh\necho no\n")
    liar.chmod(0o755)
    with pytest.raises(shim.Refused, match="is not a working Python"):
        shim.install(liar)


def test_an_externally_managed_python_is_refused(monkeypatch):
    facts = {"prefix": "/usr", "managed": True}
    with pytest.raises(shim.Refused, match="EXTERNALLY-MANAGED"):
        shim._check_environment(facts)


def test_the_answer_in_json_satisfies_its_schema(environment, capsys, check_schema):
    for words in (["status"], ["install"], ["status"], ["remove"]):
        shim.main([*words, "-p", environment.python, "--json"])
        check_schema(capsys.readouterr().out)


def test_the_command_line(environment, capsys):
    assert shim.main(["status", "--python", environment.python]) == 1
    assert shim.main(["install", f"--python={environment.python}"]) == 0
    said = capsys.readouterr().out
    assert "flash_attn 2.8.3 by anyflash is in" in said
    assert "anyflash.transformers.enable_flash_attention_2()" in said
    assert shim.main(["status", "-p", environment.python, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "anyflash-shim/1"
    assert shim.main(["remove", "--python", environment.python]) == 0
    assert capsys.readouterr().out.startswith("removed the shim from '")
    assert shim.main(["remove", "--python", environment.python]) == 1
    assert capsys.readouterr().err.startswith("error: there is no shim")
