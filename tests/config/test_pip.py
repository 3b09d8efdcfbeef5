"""What `anyflash config pip` and `pylock` write, installed by the real pip and uv."""
import hashlib

import pytest
from conftest import PIP_PYTHON, PYTHON, UV, VERSION

PYLOCK = 'lock-version = "1.0"\ncreated-by = "hand"\n\n'


def paste(world, kind, wheel, head):
    """Writes the file that has the printed lines after `head`; its path."""
    printed = world.config("config", kind, "--from", str(wheel.parent))
    assert printed.code == 0, printed
    path = world.project / {"pip": "requirements.txt", "pylock": "pylock.toml"}[kind]
    path.write_text(head + printed.out)
    return path


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
    paste(world, "pip", wheel, "# mine\ntorch\n")
    done = installer("-r", "requirements.txt")
    assert done.code == 0, done
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert len(world.installed("flash_attn")) == 1
    again = installer("-r", "requirements.txt")
    assert again.code == 0 and "Uninstalled" not in again.err, again


def test_requirements_with_a_wrong_hash_stop(world, installer):
    world.machine()
    wheel = world.wheel()
    path = paste(world, "pip", wheel, "")
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
    paste(world, "pip", wheel, "")
    done = installer("-c", "requirements.txt", "torch", "flash-attn")
    assert done.code == 0, done
    assert world.installed("torch") == ["torch-2.8.0.dist-info"]
    assert world.installed("flash_attn")[0].startswith(f"flash_attn-{VERSION}")


@pytest.mark.parametrize("honest", [False, True])
def test_pylock_installs(world, installer, honest):
    world.machine()
    wheel = world.wheel(honest=honest)
    paste(world, "pylock", wheel, PYLOCK)
    done = installer("-r", "pylock.toml", "--no-deps")
    assert done.code == 0, done
    assert len(world.installed("flash_attn")) == 1


def test_pylock_with_a_wrong_hash_stops(world, installer):
    world.machine()
    wheel = world.wheel()
    path = paste(world, "pylock", wheel, PYLOCK)
    head, digest = path.read_text().split('sha256 = "')
    path.write_text(f'{head}sha256 = "{"0" * 64}{digest[64:]}')
    done = installer("-r", "pylock.toml", "--no-deps")
    assert done.code == 1 and "hash" in (done.out + done.err).lower(), done
