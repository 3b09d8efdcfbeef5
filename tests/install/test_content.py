"""`install` and wheels that contain more than their package."""
import json

from conftest import compiled, make_wheel, visible

EXTRA = {"zz_hook.pth": b"import os\n", "helpers/__init__.py": b""}
SCRIPTS = b"[console_scripts]\nflash-serve = flash_attn:main\n"


def refusal(place, *words):
    """The JSON answer of an `install` that must change nothing."""
    before = place.tree()
    done = place.run("install", *words, "--json")
    assert done.returncode == 1, done.all
    assert visible(place.tree()) == visible(before) and place.own() == []
    return json.loads(done.stdout)


def test_a_wheel_with_more_than_its_package_is_refused(quick_place, tmp_path):
    said = refusal(quick_place, make_wheel(tmp_path, files=EXTRA))
    assert said["answer"] == "no" and not said["changed"]
    assert "contains more than flash-attn: zz_hook.pth (Python runs its lines whenever it " \
           "starts), helpers/ (a module of another name" in said["reason"]
    assert said["hint"].endswith("add --allow-content zz_hook.pth --allow-content helpers/")


def test_what_is_allowed_by_name_is_installed(quick_place, tmp_path):
    place = quick_place
    wheel = make_wheel(tmp_path, files=EXTRA)
    said = refusal(place, wheel, "--allow-content", "helpers/")
    assert "zz_hook.pth" in said["reason"] and "helpers/" not in said["reason"]
    done = place.run("install", wheel, "--allow-content", "helpers/",
                     "--allow-content", "zz_hook.pth")
    assert done.returncode == 0, done.all
    assert (place.site / "zz_hook.pth").exists() and (place.site / "helpers").is_dir()


def test_commands_are_refused_by_their_name(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, files={"flash_attn-2.8.3.dist-info/entry_points.txt": SCRIPTS})
    said = refusal(quick_place, wheel)
    assert said["hint"].endswith("add --allow-content flash-serve")
    done = quick_place.run("install", wheel, "--allow-content", "flash-serve")
    assert done.returncode == 0, done.all


def test_commands_of_other_packages_are_ordinary(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="demo",
                       files={"demo-2.8.3.dist-info/entry_points.txt": SCRIPTS,
                              "anything/__init__.py": b""})
    assert quick_place.run("install", wheel).returncode == 0


def test_a_library_that_looks_in_tmp_is_refused(quick_place, tmp_path):
    library = compiled(tmp_path / "c", "int one(void) { return 1; }\n", "-Wl,-rpath,/tmp/lib")
    wheel = make_wheel(tmp_path / "w", name="demo", tag="py3-none-linux_x86_64",
                       files={"demo/one.so": library})
    said = refusal(quick_place, wheel)
    assert "demo/one.so (it loads libraries from a folder that other users can write to: " \
           "/tmp/lib)" in said["reason"]
