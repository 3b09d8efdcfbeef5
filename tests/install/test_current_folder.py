"""Modules in the current folder are not run: it may be anybody's checkout."""
import pytest

from conftest import EXTENSION_END, compiled, make_wheel
from test_install import MODULE

NAMES = ("pip/__init__.py", "pip/__main__.py", "importlib.py", "importlib/__init__.py",
         "torch.py", "json.py", "base64.py", "runpy.py", "uv.toml", "sitecustomize.py")


@pytest.fixture
def checkout(place):
    """The current folder has modules that leave a file when they run."""
    for name in NAMES:
        path = place.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("not TOML" if name == "uv.toml" else
                        f"open({str(place.root / 'ran')!r}, 'a').write({name!r})\n")
    return place


def ran(place):
    path = place.root / "ran"
    return path.read_text() if path.exists() else ""


def test_install_runs_no_module_of_the_current_folder(checkout, tmp_path):
    part = compiled(tmp_path / "build", MODULE)
    wheel = make_wheel(tmp_path, name="one", requires=(),
                       files={"one/part" + EXTENSION_END: part})
    done = checkout.run("install", wheel)
    assert done.returncode == 0 and ran(checkout) == "", done.all + ran(checkout)
    assert "extensions: yes" in " ".join(done.stdout.split())


def test_requirements_are_resolved_in_another_folder(checkout, tmp_path):
    make_wheel(tmp_path, name="two", requires=())
    wheel = make_wheel(tmp_path, name="one", requires=("two",))
    (checkout.root / "uv.toml").unlink()  # that of the project which the environment is in
    done = checkout.run("install", wheel, "--from", tmp_path)
    assert done.returncode == 0 and ran(checkout) == "", done.all + ran(checkout)


def test_verify_runs_no_module_of_the_current_folder(checkout, tmp_path):
    assert checkout.run("install", make_wheel(tmp_path)).returncode == 0
    done = checkout.run("verify")
    assert ran(checkout) == "" and "import no:" in " ".join(done.stdout.split()), done.all


def test_folders_with_odd_names_can_be_installed_from(place, tmp_path):
    folder = tmp_path / "a${TERM}#;b"
    make_wheel(folder, name="two", requires=())
    wheel = make_wheel(tmp_path, name="one", requires=("two",))
    done = place.run("install", wheel.rename(folder / wheel.name), "--from", folder)
    assert done.returncode == 0, done.all
    assert (place.site / "two").is_dir()
