"""`anyflash run -- pip install ...`: the real pip and uv, with a local index of stand-in wheels
and the project's files unchanged."""
import functools
import hashlib
import http.server
import json
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import PROGRAM, PYTHON_TAG, WHEEL_TAG, make_wheel
from test_plan import fake_torch

OFFICIAL = "cu12torch2.8cxx11abiTRUE"
ARCH = ("--arch", "8.9")


def row(wheel, version, local):
    return {"source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
            "version": version, "local": local, "release_tag": f"v{version}",
            "filename": wheel.name, "cuda": "12", "torch": "2.8", "cxx11abi": True,
            "url": f"https://example.invalid/{wheel.name.replace('+', '%2B')}",
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "python": PYTHON_TAG, "abi": PYTHON_TAG, "platform": "linux_x86_64",
            "sm": ["8.0", "9.0"], "evidence": "listed"}


@pytest.fixture
def project(place, tmp_path):
    """An environment with torch, a project in its folder, an index, and a folder of wheels."""
    fake_torch(place)
    place.index = tmp_path / "index"
    place.folder = tmp_path / "wheels"
    make_wheel(place.index, name="other", version="1.0", requires=())
    make_wheel(place.index, name="flash_attn", version="9.9", requires=(), tag="py3-none-any")
    place.wheels = [make_wheel(place.folder, version=version, local=OFFICIAL, tag=WHEEL_TAG,
                               requires=("torch",)) for version in ("2.7.4", "2.8.3")]
    place.catalog = tmp_path / "catalog.jsonl"
    rows = [{"catalog_date": "2026-08-22"}] + [
        row(wheel, wheel.name.split("-")[1].split("+")[0], OFFICIAL) for wheel in place.wheels]
    place.catalog.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return place


def command(place, *words):
    if place.installer == "uv":
        return ["uv", "pip", "install", "--python", place.venv, "--no-index", "--find-links",
                place.index, *words]
    return [place.venv / "bin/python", "-m", "pip", "install", "--no-index", "-f", place.index,
            *words]


def call(place, *words):
    return [PROGRAM, "run", "--catalog", place.catalog, "--from", place.folder, *words]


def run(place, *words, options=ARCH, env=None):
    words = words if words[0] == "--" else ("--", *command(place, *words))
    done = subprocess.run([str(word) for word in call(place, *options, *words)], cwd=place.root,
                          env={**place.environment(), **(env or {})}, capture_output=True,
                          text=True, timeout=120)
    done.all = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def version(place):
    return place.python("import importlib.metadata as m; print(m.version('flash-attn'))"
                        ).stdout.strip()


def write(place, text, name="requirements.txt"):
    path = place.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def visible(tree):
    """A snapshot without the lock file that uv leaves, also after a trial."""
    return {name: value for name, value in tree.items() if name != ".lock"}


def leftovers(place):
    cache = place.home / ".cache/anyflash"
    return [path.name for path in cache.glob("anyflash-run-*")] + place.own()


def test_pinned_requirement_gets_its_wheel_and_undo_takes_it_back(project):
    before = project.tree()
    write(project, "other\nflash_attn==2.7.4  # a comment\ntorch\n")
    done = run(project, "-r", "requirements.txt")
    assert done.returncode == 0, done.all
    assert version(project) == "2.7.4"
    assert (project.site / "other").is_dir()
    undone = project.run("undo")
    assert undone.returncode == 0, undone.all
    assert version(project) == "" and (project.site / "other").is_dir()
    left = {name: value for name, value in visible(project.tree()).items()
            if "packages/other" not in name}
    assert left == before and leftovers(project) == []


def test_newest_wheel_that_fits_beats_what_the_index_has(project):
    done = run(project, "flash-attn")
    assert done.returncode == 0, done.all
    assert version(project) == "2.8.3"


def test_range_gets_the_newest_wheel_in_it(project):
    assert run(project, "flash-attn<2.8,>2").returncode == 0
    assert version(project) == "2.7.4"


def test_earlier_version_is_put_back_by_undo(project):
    assert run(project, "flash-attn==2.7.4").returncode == 0
    before = project.tree()
    done = run(project, "flash-attn==2.8.3")
    assert done.returncode == 0, done.all
    assert version(project) == "2.8.3"
    undone = project.run("undo")
    assert undone.returncode == 0, undone.all
    assert version(project) == "2.7.4"
    assert {key for key in before if "anyflash" not in key} == \
        {key for key in project.tree() if "anyflash" not in key}


def test_constraints_nested_files_and_extras_are_followed(project):
    write(project, "flash-attn<2.8\n", "limits/c.txt")
    write(project, "-r ../deep/b.txt\n-c c.txt\n", "limits/a.txt")
    write(project, "flash-attn ; sys_platform == 'linux'\n", "deep/b.txt")
    done = run(project, "-r", "limits/a.txt")
    assert done.returncode == 0, done.all
    assert version(project) == "2.7.4"


def test_extra_of_a_local_project_is_found(project):
    write(project, "[project]\nname = 'tool'\nversion = '1'\n[project.optional-dependencies]\n"
                   "flash = ['flash-attn==2.7.4']\n", "pyproject.toml")
    done = run(project, ".[flash]", options=(*ARCH, "--dry-run"))
    assert done.returncode == 0, done.all
    assert "flash_attn-2.7.4" in done.stderr
    done = run(project, "-e", ".", options=(*ARCH, "--dry-run"))
    assert "does not ask for flash-attn" in done.stderr, done.all


def test_marker_that_excludes_this_machine_runs_the_command_unchanged(project):
    write(project, "other\nflash-attn==1.0 ; sys_platform == 'win32'\n")
    done = run(project, "-r", "requirements.txt")
    assert done.returncode == 0, done.all
    assert "it runs unchanged" in done.stderr and version(project) == ""


def test_exit_code_is_the_command_s(project):
    done = run(project, "no-such-package", "flash-attn")
    assert done.returncode == 1, done.all
    assert version(project) == "" and leftovers(project) == []
    assert run(project, "--", "pip", "no-such-subcommand").returncode != 0


def test_version_without_a_wheel_is_refused_before_anything_runs(project):
    before = visible(project.tree())
    done = run(project, "other", "flash-attn==2.5.0", options=(*ARCH, "--prefer", "wheel"))
    assert done.returncode == 1, done.all
    assert "not run: flash-attn==2.5.0: no wheel of flash-attn==2.5.0 fits" in done.stdout
    assert visible(project.tree()) == before


def test_hash_that_matches_installs_and_one_that_cannot_is_refused(project):
    good = hashlib.sha256(project.wheels[0].read_bytes()).hexdigest()
    other = hashlib.sha256(next(project.index.glob("other*")).read_bytes()).hexdigest()
    bad = write(project, f"flash-attn==2.7.4 --hash=sha256:{'0' * 64}\n", "bad.txt")
    done = run(project, "-r", bad)
    assert done.returncode == 1 and "none of the hashes" in done.stdout, done.all
    assert f"--hash=sha256:{good}" in done.stdout
    write(project, f"other==1.0 \\\n  --hash=sha256:{other}\n"
                   f"flash-attn==2.7.4 \\\n  --hash=sha256:{good}\n")
    done = run(project, "--no-deps", "-r", "requirements.txt")
    assert done.returncode == 0, done.all
    assert version(project) == "2.7.4"


def test_pinned_torch_decides_and_a_torch_without_a_wheel_is_named(project):
    insist = (*ARCH, "--dry-run", "--prefer", "wheel")
    done = run(project, "torch==2.9.0", "flash-attn", options=insist)
    assert done.returncode == 1, done.all
    assert "fits torch 2.9.0+cu128" in done.stdout
    assert "torch 2.8.0+cu128 has one: change the version" in done.stdout
    done = run(project, "torch==2.8.0", "flash-attn", options=(*ARCH, "--dry-run"))
    assert done.returncode == 0 and "torch 2.8.0+cu128 stays" in done.stderr, done.all


def test_machine_without_a_gpu_gets_the_wheel_for_its_torch(project):
    done = run(project, "flash-attn", options=("--dry-run",))
    assert done.returncode == 0 and "flash_attn-2.8.3" in done.stderr, done.all


def test_settings_of_the_user_are_kept(project):
    write(project, "other<2\n", "mine.txt")
    name = "UV_CONSTRAINT" if project.installer == "uv" else "PIP_CONSTRAINT"
    done = run(project, "other", "flash-attn", env={name: str(project.root / "mine.txt")})
    assert done.returncode == 0, done.all
    assert version(project) == "2.8.3"


@pytest.mark.parametrize("words, reason", [
    (("uv", "sync"), "uv.lock"), (("poetry", "install"), "poetry install"),
    (("conda", "install", "flash-attn"), "conda install"), (("make",), "'make'"),
    (("pip", "install", "-t", "x", "flash-attn"), "'-t'")])
def test_what_variables_cannot_prepare_is_refused(project, words, reason):
    done = run(project, "--", *words)
    assert done.returncode == 1, done.all
    assert "not run:" in done.stdout and reason in done.stdout


def test_files_that_cannot_be_read_stop_before_the_command(project):
    write(project, "-r b.txt\n", "a.txt")
    write(project, "-r a.txt\n", "b.txt")
    done = run(project, "-r", "a.txt")
    assert done.returncode == 3 and "'a.txt' includes itself" in done.stderr, done.all
    done = run(project, "-r", "gone.txt")
    assert done.returncode == 3 and "gone.txt" in done.stderr, done.all
    write(project, "#" * (10 * 1024 * 1024 + 1), "big.txt")
    done = run(project, "-r", "big.txt")
    assert done.returncode == 3 and "big.txt" in done.stderr, done.all


def test_address_of_a_wheel_is_proved_and_sources_are_refused(project):
    done = run(project, project.wheels[0].rename(project.root / project.wheels[0].name))
    assert done.returncode == 0 or "version" in done.stderr, done.all
    done = run(project, "flash-attn @ git+https://example.invalid/f.git")
    assert done.returncode == 1 and "names sources" in done.stdout, done.all


def start_sleeping(project, *requirements, **options):
    """Starts `anyflash run` with an installer that only sleeps, and waits until that runs: (the
    installer's file, the command, its process)."""
    installer = project.bin / ("uv" if project.installer == "uv" else "pip")
    installer.unlink(missing_ok=True)
    installer.write_text("#!/bin/sh\ncase \"$*\" in *config*|*--show-settings*) exit ;; esac\n"
                         "touch started\nexec sleep 60\n")
    installer.chmod(0o755)
    words = ["pip", "install", *requirements]
    if project.installer == "uv":
        words = ["uv", "pip", "install", "--python", project.venv, *requirements]
    else:
        (project.bin / "python").symlink_to(project.venv / "bin/python")
    words = [str(word) for word in call(project, *ARCH, "--", *words)]
    child = subprocess.Popen(words, cwd=project.root, env=project.environment(),
                             stderr=subprocess.PIPE, **options)
    for _ in range(300):
        if (project.root / "started").exists():
            break
        time.sleep(0.1)
    return installer, words, child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_command_and_leaves_nothing(project, number):
    child = start_sleeping(project, "flash-attn", stdout=subprocess.PIPE, text=True)[2]
    time.sleep(0.2)
    child.send_signal(number)
    assert child.wait(timeout=30) == 128 + number, child.communicate()
    assert leftovers(project) == [".anyflash-lock"] or leftovers(project) == []


def test_wheel_that_was_built_here_is_a_candidate(project):
    built = make_wheel(project.home / ".cache/anyflash/build/0123456789abcdef/wheels",
                       version="2.8.3.post2", local="any.ptx.hd64.bf16",
                       metadata_local=True, tag="py3-none-manylinux_2_17_x86_64",
                       requires=("torch",))
    write(project, "flash_attn==2.8.3.post2\n")
    done = run(project, "-r", "requirements.txt")
    assert done.returncode == 0 and built.name in done.stderr, done.all
    assert version(project) == "2.8.3.post2+any.ptx.hd64.bf16"


def test_environment_that_is_gone_is_named(project):
    write(project, "flash_attn==2.8.3\n")
    done = run(project, "--", "uv", "pip", "install", "-r", "requirements.txt",
               env={"VIRTUAL_ENV": str(project.root / "gone")})
    assert done.returncode == 1 and done.stdout.startswith("not run: VIRTUAL_ENV names")


class Mirror(http.server.SimpleHTTPRequestHandler):
    """A proxy that has the folders of mirror.invalid itself."""
    def translate_path(self, path):
        return super().translate_path(path.removeprefix("http://mirror.invalid"))

    def log_message(self, *arguments):
        pass


def bare(place, *words):
    """The installer without options of an index."""
    return (["uv", "pip", "install", "--python", place.venv, *words]
            if place.installer == "uv" else
            [place.venv / "bin/python", "-m", "pip", "install", *words])


def test_packages_come_from_the_mirror_through_the_proxy(project):
    (project.root / "simple/other").mkdir(parents=True)
    shutil.copy(next(project.index.glob("other*")), project.root / "simple/other")
    write(project, "other\nflash-attn==2.7.4\n")
    serve = functools.partial(Mirror, directory=project.root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.server_address[1]}"
        index = "http://mirror.invalid/simple"
        done = run(project, "--", *bare(project, "-r", "requirements.txt"), env={
            "HTTP_PROXY": proxy, "http_proxy": proxy, "UV_OFFLINE": "0", "PIP_INDEX_URL": index,
            "UV_DEFAULT_INDEX": index, "PIP_TRUSTED_HOST": "mirror.invalid"})
        server.shutdown()
    assert done.returncode == 0, done.all
    assert version(project) == "2.7.4" and (project.site / "other").is_dir()


def test_without_network_a_folder_has_all_wheels(project):
    shutil.copy(next(project.index.glob("other*")), project.folder)
    (project.root / "wheels").symlink_to(project.folder)
    write(project, "other\nflash-attn==2.7.4\n")
    done = run(project, "--", *bare(project, "--no-index", "-f", "wheels", "-r",
                                    "requirements.txt"))
    assert done.returncode == 0, done.all
    assert version(project) == "2.7.4" and (project.site / "other").is_dir()
