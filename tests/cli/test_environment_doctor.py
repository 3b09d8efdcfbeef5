"""`anyflash doctor` and the environment: what it says first, and what it leaves out."""
import json
import shutil
import venv

import pytest

FLASH = {"name": "flash-attn", "version": "2.8.3", "missing_files": [], "changed_files": [],
         "extensions": ["flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"],
         "origin": "https://h.example/x.whl"}
HEALTHY = {
    "schema": "anyflash-machine/1",
    "platform": {"os": "linux", "arch": "x86_64", "libc": "glibc", "libc_version": "2.36"},
    "python": {"version": "3.12.4", "prefix": "/v"},
    "torch": {"version": "2.8.0+cu128", "cuda": "12.8", "cxx11abi": True},
    "gpus": [{"vendor": "nvidia", "name": "NVIDIA A100", "sm": "8.0"}],
    "packages": [FLASH],
}


@pytest.fixture
def doctor(anyflash, tmp_path):
    """What the doctor prints about a record."""
    def run(**groups):
        (tmp_path / "m.json").write_text(json.dumps(HEALTHY | groups))
        return anyflash("doctor", "--machine", "m.json").out
    return run


def test_no_problem_says_what_was_not_looked_at(doctor):
    lines = doctor().splitlines()
    assert lines[0].endswith("no problem was found") and "`anyflash verify` reads" in lines[1]


def test_a_build_without_torch_survives_a_new_torch(doctor):
    built = FLASH | {"extensions": ["flash_attn_2_cuda/libanyflash_cuda.so"]}
    del built["origin"]
    for version in ("2.6.0+cu124", "2.15.0+cu132"):
        lines = doctor(torch={"version": version}, packages=[built]).splitlines()
        assert lines[0].endswith("no problem was found"), lines
        assert lines[1].startswith("it was built without torch"), lines


def test_an_installed_flash_attn_needs_no_reason_against_wheels(doctor):
    other = {"version": "2.15.0+cu132", "cuda": "13.2", "cxx11abi": True}
    built = FLASH | {"built_for_torch": "==2.15.0"}
    del built["origin"]
    text = doctor(torch=other, packages=[built])
    assert "is installed" in text.splitlines()[0] and "no published wheel fits" not in text


def test_a_risk_is_in_the_first_line(doctor):
    audio = {"name": "torchaudio", "version": "2.7.0", "needs_torch": "==2.7.0"}
    lines = doctor(packages=[FLASH, audio]).splitlines()
    assert lines[0] == "flash-attn 2.8.3 is installed, with 1 risk"
    assert "requires a different torch" in lines[1]


def test_a_damaged_torch_is_the_first_line(doctor):
    torch = HEALTHY["torch"] | {"missing_files": ["torch/lib/libtorch_cpu.so"]}
    assert doctor(torch=torch).startswith("torch is damaged")


def test_no_python_is_the_first_line(anyflash):
    done = anyflash("doctor", env={"PATH": "/nonexistent"})
    assert done.out.startswith("no Python environment was found"), done.out


@pytest.mark.parametrize("given, hint", [
    ("platform.distribution=debian 12",
     "`apt install python3-venv` (as root or with sudo), then `python3 -m venv .venv`"),
    ("platform.distribution=ubuntu 24.04", "`apt install python3-venv`"),
    ("platform.distribution=fedora 41", "install Python 3 or uv"),
])
def test_no_python_names_the_command_that_works_there(anyflash, given, hint):
    done = anyflash("doctor", "--here", f"--given={given}", env={"PATH": "/nonexistent"})
    assert hint in " ".join(done.out.split()), done.out


def test_no_python_is_no_fault_and_no_wheels_are_named(anyflash):
    words = ["--here", "--given=gpu=rtx4090"]
    for command in ("doctor", "plan"):
        done = anyflash(command, *words, "--color=always", env={"PATH": "/nonexistent"})
        assert "broken" not in done.out and "\x1b[31m" not in done.out, done.out
        assert ".whl" not in done.out and "torch is not installed in" not in done.out


def test_an_empty_venv_is_the_first_line(anyflash, tmp_path):
    (tmp_path / ".venv").mkdir()
    first = anyflash("doctor").out.splitlines()[0]
    assert first.startswith("the Python environment is broken"), first


def test_a_venv_whose_python_was_removed_names_it(anyflash, tmp_path):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").write_text("home = /gone/bin\n")
    (tmp_path / ".venv/bin/python").symlink_to("/gone/bin/python3.11")
    text = anyflash("doctor").out
    assert text.startswith("the Python environment is broken")
    assert "/gone/bin/python3.11" in text


@pytest.mark.skipif(shutil.which("python3", path="/usr/bin:/bin") is None,
                    reason="needs python3 in /usr/bin")
def test_a_virtual_env_that_is_gone_is_the_first_line(anyflash):
    text = anyflash("doctor", env={"VIRTUAL_ENV": "/gone/venv"}).out
    assert text.startswith("VIRTUAL_ENV names a folder") and "VIRTUAL_ENV=/gone/venv" in text


def test_a_stated_gpu_is_no_driver_problem(anyflash):
    text = anyflash("doctor", "--here", "--given", "gpu=rtx3060").out
    assert "driver is not loaded" not in text


def test_doctor_assumes_what_plan_assumes(anyflash):
    words = ("--given", "gpu=rtx3060", "--given", "torch=2.9.1+cu128")
    assert "No decision yet" not in anyflash("doctor", *words).out


def test_two_records_in_one_folder_are_named_as_such(doctor):
    two = [FLASH | {"version": version, "folder": "/v/site"} for version in ("2.7.4", "2.8.3")]
    assert "2.7.4 and 2.8.3, both in /v/site" in " ".join(doctor(packages=two).split())


def dead_venv(folder):
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/pyvenv.cfg").write_text("home = /gone/bin\n")
    (folder / ".venv/bin/python").symlink_to("/gone/bin/python3.11")


UNUSABLE = {
    "no Python": (lambda folder: None, {"PATH": "/nonexistent"},
                  "no Python environment was found here", "python3 -m venv .venv"),
    "an empty venv": (lambda folder: (folder / ".venv").mkdir(), {},
                      "the Python environment is broken", "uv venv --clear"),
    "a dead venv": (dead_venv, {}, "a broken link to '/gone/bin/python3.11'",
                    "uv venv --clear"),
    "a VIRTUAL_ENV that is gone": (lambda folder: None, {"VIRTUAL_ENV": "/gone/venv"},
                                   "VIRTUAL_ENV=/gone/venv", "deactivate"),
}


@pytest.mark.skipif(shutil.which("python3", path="/usr/bin:/bin") is None,
                    reason="needs python3 in /usr/bin")
@pytest.mark.parametrize("words", [["plan"], ["plan", "--arch", "8.6"], ["install"]])
@pytest.mark.parametrize("what", UNUSABLE)
def test_plan_and_install_name_an_unusable_environment_first(anyflash, tmp_path, what, words):
    make, variables, cause, step = UNUSABLE[what]
    make(tmp_path)
    done = anyflash(*words, env=variables)
    text = " ".join((done.out + done.err).split())
    assert done.code != 0
    assert cause.lower() in text.split("hint:")[0].split("Next:")[0].lower(), text
    assert step in text
    assert "install --python" not in text  # no steps into another environment


def test_a_named_python_is_used_instead_of_a_virtual_env_that_is_gone(anyflash):
    done = anyflash("plan", "--python", "/usr/bin/python3", env={"VIRTUAL_ENV": "/gone/venv"})
    assert "VIRTUAL_ENV" not in done.out + done.err


def test_config_names_an_unusable_environment(anyflash, tmp_path):
    dead_venv(tmp_path)
    assert "/gone/bin/python3.11" in anyflash("config", "uv").err


def make_venv(folder, packages):
    """A virtual environment of this Python in `folder`/.venv, with the files of `packages`."""
    venv.create(folder / ".venv", symlinks=True)
    site = next((folder / ".venv/lib").glob("python3*")) / "site-packages"
    for name, text in packages.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    return site


FLASH_FILES = {
    "flash_attn/__init__.py": "", "flash_attn_2_cuda.so": "x",
    "flash_attn-2.8.3.dist-info/METADATA":
        "Name: flash_attn\nVersion: 2.8.3\nRequires-Dist: torch\nRequires-Dist: einops\n",
    "flash_attn-2.8.3.dist-info/RECORD": "flash_attn/__init__.py,,0\n",
}
EINOPS_INFO = {"einops-0.8.1.dist-info/METADATA": "Name: einops\nVersion: 0.8.1\n",
               "einops-0.8.1.dist-info/RECORD": "einops/__init__.py,,0\n"}


@pytest.mark.parametrize("einops", [{}, EINOPS_INFO], ids=["absent", "folder-gone"])
def test_a_missing_requirement_of_flash_attn_is_the_first_line(anyflash, tmp_path, einops):
    make_venv(tmp_path, FLASH_FILES | einops)
    text = " ".join(anyflash("doctor").out.split())
    assert text.startswith("a package that the installed flash-attn needs is missing"), text
    assert "nstall einops`" in text


def test_plan_installs_an_einops_that_lost_its_folder(anyflash, tmp_path):
    make_venv(tmp_path, FLASH_FILES | EINOPS_INFO)
    words = ("--given", "os=linux", "--given", "gpu=a100", "--given", "torch=2.8.0+cu128",
             "--given", "python=3.12", "--given", "libc=glibc", "--here")
    steps = json.loads(anyflash("plan", "--json", *words).out)["steps"]
    assert any("einops" in (step["argv"] or []) for step in steps), steps


def test_a_present_requirement_is_not_missing(anyflash, tmp_path):
    make_venv(tmp_path, FLASH_FILES | EINOPS_INFO | {"einops/__init__.py": ""})
    assert "needs is missing" not in anyflash("doctor").out


def test_arch_counts_as_a_stated_gpu(anyflash, tmp_path):
    record = HEALTHY | {"gpus": []}
    (tmp_path / "m.json").write_text(json.dumps(record))
    text = " ".join(anyflash("doctor", "--machine", "m.json", "--arch", "7.5").out.split())
    assert "with 1 risk FlashAttention 2 needs an Ampere GPU" in text, text


def test_plan_gets_an_installer_first_where_none_is(anyflash, tmp_path):
    record = HEALTHY | {"packages": [], "tools": []}
    (tmp_path / "m.json").write_text(json.dumps(record))
    steps = json.loads(anyflash("plan", "--machine", "m.json", "--json").out)["steps"]
    assert steps[0]["argv"][-2:] == ["-m", "ensurepip"] and steps[0]["kind"] == "tool"
    assert steps[1]["argv"][1:4] == ["-m", "pip", "install"]
    assert sum("ensurepip" in step["argv"] for step in steps) == 1


@pytest.mark.parametrize("what", ["bin/python", ""], ids=["broken-link", "dead-folder"])
@pytest.mark.parametrize("command", ["doctor", "plan", "install"])
def test_a_named_dead_environment_is_reported_like_a_found_one(anyflash, tmp_path, command,
                                                               what):
    dead_venv(tmp_path)
    done = anyflash(command, "-p", f".venv/{what}")
    text = done.out + done.err
    assert "the python environment is broken" in text.lower(), text
    assert "uv venv --clear" in " ".join(text.split())


def test_a_named_empty_folder_is_a_broken_environment(anyflash, tmp_path):
    (tmp_path / "empty").mkdir()
    done = anyflash("doctor", "-p", "empty")
    assert done.out.startswith("the Python environment is broken"), done


def test_two_records_are_a_risk_in_the_first_line(doctor):
    two = [FLASH | {"version": version, "folder": "/v/site"} for version in ("2.7.4", "2.8.3")]
    lines = doctor(packages=two).splitlines()
    assert "installed, with " in lines[0] and "installed twice" in lines[1], lines


TORCH_INFO = {"torch/__init__.py": "import torch", "torch/version.py": "",
              "torch-2.8.0.dist-info/METADATA": "Name: torch\nVersion: 2.8.0\n",
              "torch-2.8.0.dist-info/RECORD": "torch/__init__.py,,12\ntorch/version.py,,99\n"}
DAMAGED = {"empty version.py": TORCH_INFO,
           "no version.py": {name: text for name, text in TORCH_INFO.items()
                             if name != "torch/version.py"}}


@pytest.mark.parametrize("what", DAMAGED)
@pytest.mark.parametrize("command", ["doctor", "plan", "install"])
def test_a_damaged_torch_comes_first_with_its_version(anyflash, tmp_path, command, what):
    make_venv(tmp_path, DAMAGED[what])
    done = anyflash(command, "-p", ".venv")
    text = " ".join((done.out + done.err).split())
    assert "torch is damaged" in text.split("hint:")[0].lower(), text
    assert "torch==2.8.0`" in text and ".venv/bin/python" in text, text


def test_a_damaged_torch_is_reinstalled_in_its_build(anyflash, tmp_path):
    torch = HEALTHY["torch"] | {"missing_files": ["torch/lib/libtorch_cpu.so"]}
    (tmp_path / "m.json").write_text(json.dumps(HEALTHY | {"torch": torch}))
    text = " ".join(anyflash("plan", "--machine", "m.json").out.split())
    assert text.startswith("Torch is damaged") and "A wheel fits" not in text, text
    assert "--reinstall --torch-backend cu128 torch==2.8.0+cu128`" in text, text
