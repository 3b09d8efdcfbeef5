"""What `anyflash config pip` and `pylock` write, installed by the real pip and uv."""
import hashlib

import pytest
from conftest import PIP_PYTHON, PYTHON, UV, VERSION


@pytest.fixture(params=["pip", "uv"])
def installer(request, world):
    """run(words) installs into a new environment; words: what follows `pip install`."""
    if request.param == "pip" and PIP_PYTHON is None:
        pytest.skip("needs pip: name an interpreter that has it in $PIP_PYTHON")
    if request.param == "uv" and UV is None:
        pytest.skip("needs uv: pip install uv, on PATH or as $UV")
    python = str(world.project / ".venv/bin/python")
    world.run([PYTHON, "-m", "venv", "--without-pip", ".venv"])

    def run(*words):
        if request.param == "uv":
            return world.uv("pip", "install", "--python", python, *words,
                            "--preview-features", "pylock")
        return world.run([PIP_PYTHON, "-m", "pip", "--python", python, "install", *words])
    run.name = request.param
    return run


@pytest.mark.parametrize("honest", [False, True])
def test_requirements_install_with_the_hash_checked(world, installer, honest):
    world.machine()
    wheel = world.wheel(honest=honest)
    (world.project / "requirements.txt").write_text("# mine\ntorch\n")
    assert world.config("config", "pip", "--write", "--from", str(wheel.parent)).code == 0
    done = installer("-r", "requirements.txt")
    assert done.code == 0, done
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert len(world.installed("flash_attn")) == 1
    again = installer("-r", "requirements.txt")
    assert again.code == 0 and "Uninstalled" not in again.err, again


def test_requirements_with_a_wrong_hash_stop(world, installer):
    world.machine()
    wheel = world.wheel()
    assert world.config("config", "pip", "--write", "--from", str(wheel.parent)).code == 0
    path = world.project / "requirements.txt"
    head, digest = path.read_text().split("#sha256=")
    path.write_text(f"{head}#sha256={'0' * 64}{digest[64:]}")
    done = installer("-r", "requirements.txt")
    assert done.code == 1 and "hash" in (done.out + done.err).lower(), done
    assert world.installed("flash_attn") == []


@pytest.mark.parametrize("digest, code", [(None, 0), ("0" * 64, 1)])
def test_a_url_of_plan_is_checked_by_its_hash(world, installer, digest, code):
    wheel = world.wheel()
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    done = installer("--no-deps", f"{world.index.url(wheel)}#sha256={digest}")
    assert done.code == code, done
    assert len(world.installed("flash_attn")) == (1 if code == 0 else 0)


def test_requirements_serve_as_constraints(world, installer):
    world.machine()
    wheel = world.wheel()
    assert world.config("config", "pip", "--write", "--from", str(wheel.parent)).code == 0
    done = installer("-c", "requirements.txt", "torch", "flash-attn")
    assert done.code == 0, done
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert world.installed("flash_attn")[0].startswith(f"flash_attn-{VERSION}")


@pytest.mark.parametrize("honest", [False, True])
def test_pylock_installs(world, installer, honest):
    world.machine()
    wheel = world.wheel(honest=honest)
    assert world.config("config", "pylock", "--write", "--from", str(wheel.parent)).code == 0
    done = installer("-r", "pylock.toml", "--no-deps")
    assert done.code == 0, done
    assert len(world.installed("flash_attn")) == 1


def test_pylock_with_a_wrong_hash_stops(world, installer):
    world.machine()
    wheel = world.wheel()
    assert world.config("config", "pylock", "--write", "--from", str(wheel.parent)).code == 0
    path = world.project / "pylock.toml"
    head, digest = path.read_text().split('sha256 = "')
    path.write_text(f'{head}sha256 = "{"0" * 64}{digest[64:]}')
    done = installer("-r", "pylock.toml", "--no-deps")
    assert done.code == 1 and "hash" in (done.out + done.err).lower(), done


def test_pylock_that_uv_exported_is_made_readable_for_both(world, installer):
    """uv's own export of an official wheel has a version that uv itself then refuses."""
    if UV is None:
        pytest.skip("needs uv: pip install uv, on PATH or as $UV")
    world.pyproject()
    world.machine()
    wheel = world.wheel()
    assert world.config("config", "uv", "--write", "--source", "url").code == 0
    exported = world.uv("export", "--format", "pylock.toml", "-o", "pylock.toml", "-q")
    assert exported.code == 0, exported
    assert world.config("config", "pylock", "--write", "--from", str(wheel.parent)).code == 0
    done = installer("-r", "pylock.toml")
    assert done.code == 0, done
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
