"""`anyflash config`: what is written for each tool, and that the rest of a file is kept.

The texts are checked with the real tools by tests/config (tests/run config).
"""
import hashlib
import json
import os
import pathlib
import stat
import tomllib
import venv
import zipfile

import pytest

from recorded import RECORDS

RTX4090 = str(RECORDS["rtx4090-torch2.8"])
HOPPER = ("-g", "python=3.12", "-g", "torch=2.9.1+cu130", "-g", "gpu=h100", "-g", "glibc=2.39",
          "-g", "driver=580.95.05", "-g", "platform=linux_x86_64")
GH200 = str(RECORDS["gh200-torch2.9"])
LINUX = "sys_platform == 'linux' and platform_machine == 'x86_64'"
MARKER = f"python_version == '3.12' and {LINUX}"
FILE = "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
PLAIN = "flash_attn-2.8.3.post1-cp312-cp312-linux_x86_64.whl"
URL = ("https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3.post1/"
       + FILE.replace("+", "%2B"))

PROJECT = '''\
# kept
[project]
name = "demo"
version = "0.1"
requires-python = ">=3.12,<3.13"   # one
dependencies = [
    "torch",  # big
    "Flash_Attn >= 2.7 ; python_version < '4'",
    "numpy"   # last
]

[tool.uv]
no-build-isolation-package = ["flash-attn"]  # old

[tool.ruff]
line-length = 100
'''

LOCKED = f'''\
# kept
[project]
name = "demo"
version = "0.1"
requires-python = ">=3.12,<3.13"   # one
dependencies = [
    "torch",  # big
    "flash-attn>= 2.7 ; {MARKER}",
    "numpy"   # last
]

[tool.uv]
no-build-package = ["flash-attn"]

[tool.uv.sources]
flash-attn = [
    {{ path = "wheels/{PLAIN}", marker = "{MARKER}" }},
]

[[tool.uv.dependency-metadata]]
name = "flash-attn"
requires-dist = ["torch==2.8.*", "einops"]

[tool.ruff]
line-length = 100
'''


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def official_wheel(folder, requires="torch\nRequires-Dist: einops", name=FILE, files=()):
    """A small wheel like the official ones: only the file name has the local part."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("flash_attn/__init__.py", "")
        for file in files:
            archive.writestr(file, "")
        archive.writestr("flash_attn-2.8.3.post1.dist-info/METADATA",
                         "Metadata-Version: 2.1\nName: flash_attn\nVersion: 2.8.3.post1\n"
                         f"Requires-Dist: {requires}\n\n")
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_uv_text_is_the_whole_file_with_the_rest_as_it_was(anyflash, project):
    answer = anyflash("config", "uv", "-m", RTX4090)
    assert answer.code == 0 and answer.out == LOCKED
    assert (project / "pyproject.toml").read_text() == PROJECT


def test_uv_write_names_the_file_and_a_second_run_changes_nothing(anyflash, project):
    os.chmod(project / "pyproject.toml", 0o640)
    official_wheel(project / "wheels", name=PLAIN)
    answer = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert answer.code == 0
    assert answer.out.startswith("wrote pyproject.toml\n")
    assert answer.out.endswith("Next: `uv lock`\n")
    assert (project / "pyproject.toml").read_text() == LOCKED
    assert stat.S_IMODE((project / "pyproject.toml").stat().st_mode) == 0o640
    again = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert again.code == 0 and again.out.startswith("nothing had to change in pyproject.toml\n")
    assert "Next:" not in again.out
    assert (project / "pyproject.toml").read_text() == LOCKED


@pytest.mark.parametrize("name", [FILE, PLAIN, FILE.replace("+", "%2B"), None])
def test_plan_asks_to_add_a_wheel_only_if_the_project_lacks_it(anyflash, tmp_path, name):
    wheel = "" if name is None else f'flash-attn = {{ url = "https://h/{name}" }}\n'
    (tmp_path / "pyproject.toml").write_text(f"[tool.uv.sources]\n{wheel}")
    found = json.loads(anyflash("machine").out)["project_files"]
    record = json.loads(pathlib.Path(RTX4090).read_text()) | {"project_files": found}
    (tmp_path / "m.json").write_text(json.dumps(record))
    plan = anyflash("plan", "-m", "m.json").out
    assert ("add it to the project" in plan) == (name is None), plan


def test_uv_write_goes_through_a_link(anyflash, project):
    (project / "real.toml").write_text(PROJECT)
    (project / "pyproject.toml").unlink()
    (project / "pyproject.toml").symlink_to("real.toml")
    official_wheel(project / "wheels", name=PLAIN)
    assert anyflash("config", "uv", "-m", RTX4090, "--write").code == 0
    assert (project / "pyproject.toml").is_symlink()
    assert (project / "real.toml").read_text() == LOCKED


def test_uv_from_reads_the_wheel_and_puts_it_into_the_project(anyflash, project):
    official_wheel(project / "down", "torch>=2\nRequires-Dist: einops\n"
                                     "Requires-Dist: pytest ; extra == 'test'")
    answer = anyflash("config", "uv", "-m", RTX4090, "--write", "--from", "down")
    assert answer.code == 0
    assert (project / "wheels" / PLAIN).read_bytes() == (project / "down" / FILE).read_bytes()
    put = f"the wheel was put into the project: 'wheels/{PLAIN}'"
    assert put in answer.err
    (project / "wheels" / PLAIN).unlink()
    for is_put in (True, False):
        answer = anyflash("config", "uv", "-m", RTX4090, "--write", "--from", "down")
        assert "nothing had to change in pyproject.toml" in answer.out
        assert (put in answer.err) == is_put
    made = tomllib.loads((project / "pyproject.toml").read_text())
    assert made["tool"]["uv"]["dependency-metadata"] == [
        {"name": "flash-attn", "requires-dist": ["torch==2.8.*", "einops"]}]


def test_uv_writes_nothing_for_a_wheel_with_more_than_its_package(anyflash, project):
    official_wheel(project / "down", files=["zz.pth"])
    words = ["config", "uv", "-m", RTX4090, "--write", "--from", "down"]
    answer = anyflash(*words)
    assert answer.code == 1 and "zz.pth (Python runs its lines" in answer.err, answer
    assert "hint: read these files first; to install them too, add --allow-content zz.pth" \
        in answer.err
    assert (project / "pyproject.toml").read_text() == PROJECT
    assert not (project / "wheels").exists()
    said = json.loads(anyflash(*words, "--json").out)
    assert "zz.pth" in said["reason"] and "--allow-content zz.pth" in said["hint"]
    assert anyflash(*words, "--allow-content", "zz.pth").code == 0
    assert (project / "wheels" / PLAIN).exists()


def test_uv_says_that_the_needs_of_another_package_are_not_known(anyflash, project):
    answer = anyflash("config", "uv", *HOPPER, "--package", "flash_attn_3")
    made = tomllib.loads(answer.out)["tool"]["uv"]
    assert "flash-attn-3" in made["sources"] and "dependency-metadata" not in made
    assert "name the folder of the file with --from" in answer.err


def test_uv_url_is_written_on_demand_with_a_warning(anyflash, project):
    answer = anyflash("config", "uv", "-m", RTX4090, "--source", "url")
    made = tomllib.loads(answer.out)["tool"]["uv"]
    assert made["sources"]["flash-attn"] == [{"url": URL, "marker": MARKER}]
    assert "reinstalls this file at every `uv sync`" in answer.err


def test_uv_extra_gets_the_dependency(anyflash, project):
    (project / "pyproject.toml").write_text(PROJECT.replace(
        '    "Flash_Attn >= 2.7 ; python_version < \'4\'",\n', ""))
    made = tomllib.loads(anyflash("config", "uv", "-m", RTX4090, "--extra", "flash").out)
    assert made["project"]["optional-dependencies"] == {"flash": [f"flash-attn ; {MARKER}"]}
    assert made["project"]["dependencies"] == ["torch", "numpy"]


def test_uv_extra_says_that_the_dependency_stays(anyflash, project):
    answer = anyflash("config", "uv", "-m", RTX4090, "--extra", "flash")
    assert answer.code == 0
    assert "note: flash-attn stays in the dependencies of the project" in answer.err


def test_uv_two_platforms_in_one_project(anyflash, project):
    made = tomllib.loads(anyflash("config", "uv", "-m", RTX4090, "-m", GH200).out)
    arm = MARKER.replace("x86_64", "aarch64")
    assert [each["marker"] for each in made["tool"]["uv"]["sources"]["flash-attn"]] == [
        MARKER, arm]
    assert f"flash-attn>= 2.7 ; ({MARKER}) or ({arm})" in made["project"]["dependencies"]
    needs = made["tool"]["uv"]["dependency-metadata"][0]["requires-dist"]
    assert needs == [f"torch==2.8.* ; {MARKER}", f"torch==2.9.* ; {arm}", "einops"]


def test_uv_refuses_a_python_that_the_project_excludes(anyflash, project):
    (project / "pyproject.toml").write_text(PROJECT.replace(">=3.12,<3.13", ">=3.13"))
    answer = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert answer.code == 1 and "requires-python is '>=3.13'" in answer.err
    assert ">=3.13" in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize("line, torch", [
    ("torch==2.7.1", "2.7.1+cu126"), ("torch==2.7.1+cu128", "2.7.1+cu128"),
    ("torch >=2.4,<2.8", "2.7.1+cu126"), ("torch==2.9.*", "2.9.1+cu128"),
    ("torchvision==0.22.0", "2.7.1+cu126"), ("torchaudio<2.8", "2.7.1+cu126"),
    ("torch @ https://h/torch-2.7.1%2Bcu118-cp312-cp312-linux_x86_64.whl", "2.7.1+cu118")])
@pytest.mark.parametrize("table", ["project", "dependency-groups", "constraint"])
def test_uv_takes_the_torch_of_the_project(anyflash, project, line, torch, table):
    text = {"project": PROJECT.replace('"torch"', f'"{line}"'),
            "dependency-groups": f'{PROJECT}\n[dependency-groups]\ngpu = ["{line}"]\n',
            "constraint": PROJECT.replace(
                "[tool.uv]\n", f'[tool.uv]\nconstraint-dependencies = ["{line}"]\n')}[table]
    (project / "pyproject.toml").write_text(text)
    answer = anyflash("config", "uv", "-m", RTX4090)
    assert f'requires-dist = ["torch=={torch[:3]}.*", "einops"]' in answer.out, answer
    assert (f"note: chosen for torch {torch} because of '{line.split(' @ ')[0]}" in answer.err
            and "; rtx4090-torch2.8.json has 2.8.0+cu128" in answer.err)


def test_a_range_of_torch_gets_an_official_wheel_before_a_newer_torch(anyflash, project):
    (project / "pyproject.toml").write_text(PROJECT.replace('"torch"', '"torch>2.8.1"'))
    pin = json.loads(anyflash("config", "uv", "-m", RTX4090, "--json").out)["pins"][0]
    assert pin["publisher"] == "Dao-AILab" and pin["torch"] != "2.8", pin


def test_uv_takes_the_torch_of_its_sources(anyflash, project):
    (project / "pyproject.toml").write_text(PROJECT + (
        '\n[tool.uv.sources]\ntorch = [{ url = "https://h/torch-2.7.1%2Bcu118-cp312-cp312-'
        'linux_x86_64.whl", marker = "sys_platform == \'linux\'" }]\n'))
    assert "chosen for torch 2.7.1+cu118" in anyflash("config", "uv", "-m", RTX4090).err
    (project / "pyproject.toml").write_text(PROJECT.replace('"torch"', '"torch==2.7.1"') + (
        '\n[tool.uv.sources]\ntorch = { index = "pt" }\n\n[[tool.uv.index]]\nname = "pt"\n'
        'url = "https://h/whl/cu118"\n'))
    assert "chosen for torch 2.7.1+cu118" in anyflash("config", "uv", "-m", RTX4090).err


@pytest.mark.parametrize("kind", ["uv", "pip", "poetry", "pixi", "conda", "dockerfile"])
def test_the_torch_of_requirements_txt_counts_where_the_tools_own_file_has_none(
        anyflash, project, kind):
    (project / "pyproject.toml").write_text(PROJECT.replace('    "torch",  # big\n', ""))
    (project / "requirements.txt").write_text("-r more.txt\n")
    (project / "more.txt").write_text("torch==2.7.1  # here\n")
    made = json.loads(anyflash("config", kind, "-m", RTX4090, "--json").out)
    assert [pin["torch"] for pin in made["pins"]] == ["2.7"], made
    assert "because of 'torch==2.7.1' in more.txt" in made["notes"][0]


@pytest.mark.parametrize("kind, file, text", [
    ("pixi", "pixi.toml", '[pypi-dependencies]\ntorch = "==2.7.1"\n'),
    ("poetry", "pyproject.toml", '[tool.poetry.dependencies]\ntorch = "~2.7"\n'),
    ("conda", "environment.yml", "dependencies:\n  - pip:\n    - torch==2.7.1\n")])
def test_the_torch_in_the_file_of_the_tool_counts(anyflash, tmp_path, kind, file, text):
    (tmp_path / file).write_text(text)
    answer = anyflash("config", kind, "-m", RTX4090)
    assert answer.code == 0 and "torch2.7cxx11abiTRUE" in answer.out, answer
    if file != "pyproject.toml":
        assert "chosen for" not in anyflash("config", "uv", "-m", RTX4090).err


@pytest.mark.parametrize("old, new, said", [
    ('"torch"', '"torch==2.3.1", "flash-attn==2.8.3"', "nearest pins"),
    ('"torch"', '"torch==2.7.1", "torch>=2.8"', "exclude each other"),
    ('"torch"', '"torch==7.1"', "no wheel"),
    ('"torch"', '"torch>7"', "no known release of torch satisfies"),
    ('"torch"', '"torchvision==0.22.1", "torch==2.8.0"', "exclude each other"),
    ('"torch"', '"vllm==0.10.0"', "pin torch, too"),
    ("Flash_Attn >= 2.7", "flash-attn>=2.9", "no wheel of flash-attn>=2.9 fits torch 2.8.0"),
    ('"torch"', "\"torch==2.7 ; sys_platform == 'darwin'\"", "each with a marker"),
    ("[tool.uv]\n", '[tool.uv]\noverride-dependencies = ["torch>=2.6"]\n', "pin torch there"),
    ('version = "0.1"', 'version = "0.1"\ndynamic = ["optional-dependencies"]', "is dynamic"),
])
def test_uv_changes_nothing_if_the_project_cannot_be_locked(anyflash, project, old, new, said):
    text = PROJECT if "dynamic" not in new else PROJECT.replace(
        "    \"Flash_Attn >= 2.7 ; python_version < '4'\",\n", "")
    (project / "pyproject.toml").write_text(text.replace(old, new))
    answer = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert answer.code == 1 and said in answer.err, answer
    assert (project / "pyproject.toml").read_text() == text.replace(old, new)
    assert not (project / "wheels").exists()


def test_an_exact_version_of_flash_attn_is_kept(anyflash, project):
    (project / "pyproject.toml").write_text(
        PROJECT.replace("Flash_Attn >= 2.7", "flash-attn==2.8.3"))
    made = json.loads(anyflash("config", "uv", "-m", RTX4090, "--json").out)
    assert [pin["version"] for pin in made["pins"]] == ["2.8.3"]
    assert f"flash-attn==2.8.3 ; {MARKER}" in made["text"]
    assert made["pins"][0]["publisher"] == "Dao-AILab"


@pytest.mark.parametrize("more, where", [
    ("", "flash"), ("[tool.uv]\npackage = true\n", "flash"),
    ('[build-system]\nrequires = ["hatchling"]\n', "flash"),
    ("[tool.uv]\npackage = false\n", None)])
def test_uv_adds_no_required_dependency_to_a_package(anyflash, project, more, where):
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "demo"\nversion = "0.1"\nrequires-python = "==3.12.*"\n{more}')
    answer = anyflash("config", "uv", "-m", RTX4090)
    made = tomllib.loads(answer.out)["project"]
    assert made.get("optional-dependencies") == (
        {where: [f"flash-attn ; {MARKER}"]} if where else None)
    assert ("dependencies" in made) == (where is None)
    assert ("`uv sync --extra flash` takes it along" in answer.err) == (where is not None)


def test_uv_says_which_pythons_get_nothing(anyflash, project):
    said = "only Python 3.12 gets flash-attn"
    assert said not in anyflash("config", "uv", "-m", RTX4090).err
    (project / "pyproject.toml").write_text(PROJECT.replace(">=3.12,<3.13", ">=3.11"))
    assert said in anyflash("config", "uv", "-m", RTX4090).err


@pytest.mark.parametrize("line", ["torch", "torch==2.8.0", "torch==2.8.0+cu128", "torch>=2.6",
                                  "torch>=2.8,<2.9"])
def test_uv_is_silent_about_torch_that_the_wheel_fits(anyflash, project, line):
    (project / "pyproject.toml").write_text(PROJECT.replace('"torch"', f'"{line}"'))
    answer = anyflash("config", "uv", "-m", RTX4090)
    assert answer.code == 0 and "chosen for" not in answer.err


def test_uv_takes_the_version_out_of_its_metadata_block(anyflash, project):
    block = ('\n[[tool.uv.dependency-metadata]]\nname = "Flash-Attn"  # mine\n'
             'version = "2.8.3"\nrequires-dist = ["torch"]\nrequires-python = ">=3.9"\n')
    (project / "pyproject.toml").write_text(PROJECT + block)
    answer = anyflash("config", "uv", "-m", RTX4090)
    assert ('name = "Flash-Attn"  # mine\nrequires-dist = ["torch==2.8.*", "einops"]\n'
            'requires-python = ">=3.9"\n') in answer.out


def test_uv_refuses_a_file_it_does_not_understand(anyflash, project):
    (project / "pyproject.toml").write_text("[project]\nname = demo\n")
    answer = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert answer.code == 3 and "pyproject.toml, line 2, column 8" in answer.err
    assert (project / "pyproject.toml").read_text() == "[project]\nname = demo\n"


def test_uv_without_a_project_prints_what_to_add(anyflash):
    answer = anyflash("config", "uv", "-m", RTX4090)
    assert answer.code == 0
    assert answer.out.startswith("[project]\ndependencies = [\"flash-attn ;")
    assert "these lines are no complete file; `uv init --bare` creates one" in answer.err


def test_uv_writes_no_file_that_uv_refuses(anyflash, tmp_path):
    answer = anyflash("config", "uv", "-m", RTX4090, "--write")
    assert answer.code == 1
    assert "no pyproject.toml here: run `uv init --bare` first" in answer.err
    assert not (tmp_path / "pyproject.toml").exists() and not (tmp_path / "wheels").exists()
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    for words in ([], ["--write"]):
        answer = anyflash("config", "uv", "-m", RTX4090, *words)
        assert answer.code == 1 and "pyproject.toml has no project.name" in answer.err
    assert (tmp_path / "pyproject.toml").read_text() == "[tool.ruff]\nline-length = 100\n"


def test_json_has_the_pins_and_the_text(anyflash, project):
    answer = anyflash("config", "uv", "-m", RTX4090, "--json")
    made = json.loads(answer.out)
    assert made["schema"] == "anyflash-config/1" and made["text"] == LOCKED
    assert made["changed"] is True and made["written"] is False
    pin = made["pins"][0]
    assert (pin["filename"], pin["url"], pin["marker"]) == (FILE, URL, MARKER)
    assert pin["path"] == f"wheels/{PLAIN}" and pin["sha256"] is None


def test_pip_lines_name_the_address_and_the_torch(anyflash, tmp_path):
    digest = official_wheel(tmp_path / "down")
    answer = anyflash("config", "pip", "-m", RTX4090, "--from", "down")
    assert answer.code == 0 and answer.err == ""
    assert answer.out == ("--only-binary flash-attn\ntorch==2.8.*\n"
                          f"flash-attn @ {URL}#sha256={digest} ; {MARKER}\n")
    assert "no hash is written" in anyflash("config", "pip", "-m", RTX4090).err


@pytest.mark.parametrize("kind", ["uv", "pip"])
def test_a_build_is_no_wheel_to_lock(anyflash, project, kind):
    answer = anyflash("config", kind, "-m", RTX4090, "--prefer", "build")
    assert answer.code == 1 and answer.out == ""
    assert "there is no flash-attn to lock; `anyflash build` makes a wheel" in answer.err


def test_pylock_is_an_archive_without_version(anyflash, tmp_path):
    digest = official_wheel(tmp_path / "down")
    made = tomllib.loads(anyflash("config", "pylock", "-m", RTX4090, "--from", "down").out)
    assert made == {"packages": [
        {"name": "flash-attn", "marker": MARKER,
         "archive": {"url": URL, "hashes": {"sha256": digest}}}]}


def test_pylock_needs_a_hash(anyflash):
    answer = anyflash("config", "pylock", "-m", RTX4090)
    assert answer.code == 1 and "--from" in answer.err


@pytest.mark.parametrize("kind, code", [("pylock", 1), ("pip", 0), ("uv", 0)])
def test_another_wheel_in_the_folder_is_not_taken(anyflash, project, kind, code):
    (project / "down").mkdir()
    (project / "down/flash_attn-2.7.4-cp312-cp312-linux_x86_64.whl").write_text("")
    answer = anyflash("config", kind, "-m", RTX4090, "--from", "down")
    assert answer.code == code and f"the folder 'down' does not have '{FILE}'" in answer.err
    assert anyflash("config", kind, "-m", RTX4090, "--from", "gone").code == 3


@pytest.fixture
def hashed(tmp_path):
    """A catalog of one wheel whose hash is that of the file in `down`; the hash."""
    digest = official_wheel(tmp_path / "down")
    (tmp_path / "hashed.jsonl").write_text(json.dumps({
        "source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
        "version": "2.8.3.post1", "local": "cu12torch2.8cxx11abiTRUE", "filename": FILE,
        "url": URL, "cuda": "12", "torch": "2.8", "cxx11abi": True, "cxx11abi_effective": True,
        "python": "cp312", "abi": "cp312", "platform": "linux_x86_64", "glibc_min": "2.17",
        "sm": ["8.0"], "metadata_has_local": False, "evidence": "listed", "sha256": digest}))
    return digest


def test_a_known_hash_is_locked_without_the_file(anyflash, hashed):
    words = ["-m", RTX4090, "--catalog", "hashed.jsonl"]
    assert f"{URL}#sha256={hashed} ; " in anyflash("config", "pip", *words).out
    made = tomllib.loads(anyflash("config", "pylock", *words).out)
    assert made["packages"][0]["archive"] == {"url": URL, "hashes": {"sha256": hashed}}
    assert f"sha256:{hashed}" in anyflash("config", "dockerfile", *words).out
    assert anyflash("find", "-q", "--catalog", "hashed.jsonl").out == f"{URL}#sha256={hashed}\n"


def test_another_file_than_the_catalogs_is_refused(anyflash, hashed, tmp_path):
    official_wheel(tmp_path / "down", "numpy")
    answer = anyflash("config", "uv", "-m", RTX4090, "--catalog", "hashed.jsonl", "--from",
                      "down")
    assert answer.code == 3 and "is not the file in the catalog" in answer.err, answer.err
    assert hashed in answer.err


def test_poetry_lines_name_the_address(anyflash, project):
    answer = anyflash("config", "poetry", "-m", RTX4090)
    assert tomllib.loads(answer.out) == {"tool": {"poetry": {"dependencies": {
        "torch": "2.8.*", "flash-attn": {"url": URL, "markers": MARKER}}}}}
    assert (project / "pyproject.toml").read_text() == PROJECT


def test_pixi_lines_name_the_address_for_the_platform(anyflash):
    made = tomllib.loads(anyflash("config", "pixi", "-m", GH200).out)
    assert made["target"]["linux-aarch64"]["pypi-dependencies"]["torch"] == "==2.9.*"
    made = tomllib.loads(anyflash("config", "pixi", "-m", RTX4090).out)
    assert made == {"target": {"linux-64": {
        "dependencies": {"python": "3.12.*"},
        "pypi-dependencies": {"torch": "==2.8.*", "flash-attn": {"url": URL}}}}}
    made = tomllib.loads(anyflash("config", "pixi", *HOPPER, "--package", "flash_attn_3").out)
    assert "dependencies" not in made["target"]["linux-64"]


def test_pixi_and_conda_lines_take_conda_forge_for_its_torch(anyflash):
    record = str(RECORDS["pixi-torch2.8"])
    made = tomllib.loads(anyflash("config", "pixi", "-m", record).out)
    assert made == {"dependencies": {"pytorch-gpu": "2.8.*", "flash-attn": "*"}}
    answer = anyflash("config", "conda", "-m", record)
    assert "pytorch-gpu=2.8.*\n  - flash-attn\n" in answer.out


def test_conda_lines_have_pip_install_the_address(anyflash, hashed):
    answer = anyflash("config", "conda", "-m", RTX4090, "--catalog", "hashed.jsonl")
    assert answer.out == (
        "channels:\n  - conda-forge\ndependencies:\n  - python=3.12\n  - pip\n  - pip:\n"
        f'      - torch==2.8.*\n      - "flash-attn @ {URL}#sha256={hashed}"\n')


@pytest.mark.parametrize("kind", ["pip", "pylock", "poetry", "pixi", "conda", "dockerfile"])
def test_lines_to_paste_are_for_one_machine(anyflash, kind):
    answer = anyflash("config", kind, "-m", RTX4090, "-m", GH200)
    assert answer.code == 1 and "ask for one at a time" in answer.err


def test_a_line_with_an_unknown_value_is_left_out(anyflash):
    """A wheel for every Python: the lines say nothing about Python."""
    answer = anyflash("config", "conda", *HOPPER, "--package", "flash_attn_3")
    assert answer.code == 0 and "  - pip\n" in answer.out and "python=" not in answer.out


def test_dockerfile_checks_hash_and_torch(anyflash, tmp_path):
    digest = official_wheel(tmp_path / "down")
    answer = anyflash("config", "dockerfile", "-m", RTX4090, "--from", "down")
    assert f"ADD --checksum=sha256:{digest} {URL} /tmp/wheels/{FILE}\n" in answer.out
    assert "startswith('2.8.')" in answer.out


@pytest.mark.parametrize("words, error", [
    ([], "'config' takes one argument: uv, pip, pylock, poetry, pixi, conda, dockerfile"),
    (["npm"], "'npm' is not a kind of configuration: uv, pip, pylock, poetry, pixi, conda, d"),
    (["uv", "pip"], "'config' takes one argument"),
    (["uv", "--source", "ftp"], "--source takes auto, path or url"),
    (["pip", "--source", "url"], "--source works only with `config uv`"),
    (["uv", "--check"], "--check"),
    (["pip", "--write"], "--write is not supported"),
    (["poetry", "--write"], "--write is not supported"),
])
def test_config_refuses_with_exit_2(anyflash, words, error):
    answer = anyflash("config", *words, "-m", RTX4090)
    assert answer.code == 2 and error in answer.err


def test_undo_says_how_to_take_a_written_file_back(anyflash, tmp_path):
    venv.create(tmp_path / "empty", symlinks=True)
    answer = anyflash("undo", "--python", str(tmp_path / "empty"))
    assert answer.code == 1 and "git restore -p pyproject.toml" in " ".join(answer.out.split())


def test_config_says_no_where_there_is_nothing_to_lock(anyflash):
    record = str(RECORDS["no-gpu-cpu-torch"])
    answer = anyflash("config", "uv", "-m", record)
    assert answer.code == 1 and answer.out == ""
    assert "there is no flash-attn to lock" in answer.err
    made = json.loads(anyflash("config", "uv", "-m", record, "--json").out)
    assert made["text"] is None and "flash-attn" in made["reason"]


def test_a_refusal_names_the_plan_for_the_same_machines(anyflash):
    record = str(RECORDS["no-gpu-cpu-torch"])
    answer = anyflash("config", "uv", "-m", record, "--official")
    assert answer.code == 1
    hint = f"hint: `anyflash plan --official --machine {record}` shows every option"
    assert hint in answer.err


@pytest.mark.parametrize("tool", ["uv", "pip", "poetry", "pixi", "conda"])
@pytest.mark.parametrize("gpu, torch, index", [
    ("RX 7900 XTX", "2.14.0+rocm7.2", "without ROCm: name PyTorch's wheel index for rocm7.2"),
    ("RTX 4090", "2.14.0+cu126", "a different CUDA from the wheel's"),
    ("RTX 4090", "2.9.1+cu128", None),
])
def test_a_torch_that_a_plain_install_does_not_bring_is_named(anyflash, tmp_path, tool, gpu,
                                                              torch, index):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\nrequires-python = "==3.12.*"\n'
        'dependencies = ["torch"]\n')
    facts = ("os=linux", "arch=x86_64", "glibc=2.35", "python=3.12", f"gpu={gpu}",
             f"torch={torch}")
    answer = anyflash("config", tool, "--project", tmp_path,
                      *(word for fact in facts for word in ("--given", fact)))
    assert answer.code == 0, answer
    assert ("a plain install gets torch" in answer.err) == (index is not None)
    assert index is None or index in " ".join(answer.err.split())
