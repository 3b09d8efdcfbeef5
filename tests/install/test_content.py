"""`install` and wheels that contain more than their package."""
import json
import struct
import zipfile
import zlib

import pytest

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
    assert "demo/one.so (it loads libraries from a folder that others may write to: " \
           "/tmp/lib)" in said["reason"]


def renamed(wheel, old, new):
    """The wheel with a member whose own header and directory entry carry a second name in the
    field "Unicode path" (APPNOTE.TXT 4.6.9), which pip and uv use."""
    with zipfile.ZipFile(wheel) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            if name == old:
                field = struct.pack("<BI", 1, zlib.crc32(old.encode())) + new.encode()
                info.extra = struct.pack("<HH", 0x7075, len(field)) + field
            archive.writestr(info, content)
    return wheel


def test_a_member_with_a_second_name_is_refused(place, tmp_path):
    wheel = renamed(make_wheel(tmp_path, files={"flash_attn/ops/x.py": b"import os\n"}),
                    "flash_attn/ops/x.py", "evil.pth")
    before = place.tree()
    done = place.run("install", wheel)
    assert done.returncode == 3 and "a second name in an extra field" in done.stderr, done.all
    assert visible(place.tree()) == visible(before)
    assert "second name" in place.run("inspect", wheel).stderr


def test_a_record_of_other_files_is_refused_whatever_is_allowed(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, record=False, files={
        "flash_attn-2.8.3.dist-info/RECORD": b"evil.pth,,3\n"})
    said = refusal(quick_place, wheel, "--allow-content", "RECORD")
    assert "RECORD (it lists other files than the wheel contains: 1 file does not match it, " \
           "for example evil.pth)" in said["reason"]
    assert said["hint"].startswith("no option allows this")


@pytest.mark.parametrize("name", ["{home}/.bashrc", "../../x"])
def test_a_command_outside_its_folder_is_refused_before_anything_is_unpacked(
        place, tmp_path, name):
    name = name.format(home=place.home)
    (place.home / ".bashrc").write_text("mine\n")
    scripts = f"[console_scripts]\n{name} = demo:x\n".encode()
    wheel = make_wheel(tmp_path, name="demo",
                       files={"demo-2.8.3.dist-info/entry_points.txt": scripts})
    said = refusal(place, wheel, "--allow-content", name)
    assert "an installer may write a command of this name to any folder" in said["reason"]
    assert (place.home / ".bashrc").read_text() == "mine\n"


@pytest.mark.parametrize("option", ["auxiliary", "filter", "audit"])
def test_a_library_that_the_loader_opens_by_its_path_is_refused(quick_place, tmp_path, option):
    library = compiled(tmp_path / "c", "int one(void) { return 1; }\n",
                       f"-Wl,--{option}=/opt/x.so")
    wheel = make_wheel(tmp_path / "w", name="demo", tag="py3-none-linux_x86_64",
                       files={"demo/one.so": library})
    said = refusal(quick_place, wheel)
    assert "demo/one.so (" in said["reason"] and ": /opt/x.so)" in said["reason"]


@pytest.mark.parametrize("member", [
    ".data/purelib/evil.pth", ".data/data/pyvenv.cfg", ".data/scripts/python",
    "other-1.0.data/purelib/evil.pth", "demo-9.9.data/scripts/x", "Demo-2.8.3.DATA/data/x"])
def test_a_data_folder_of_another_name_is_refused(place, tmp_path, member):
    """pip installs what is in it by scheme, whatever the name before ".data" is."""
    wheel = make_wheel(tmp_path, name="demo", requires=(), files={member: b"import os\n"})
    said = refusal(place, wheel, "--allow-content", member.split("/")[0] + "/")
    assert "may write what is in it to any folder" in said["reason"]
    assert said["hint"].startswith("no option allows this")


@pytest.mark.parametrize("member", [
    "evil.start", "demo-2.8.3.data/data/pip.conf", "demo-2.8.3.data/data/uv.toml",
    "demo-2.8.3.data/data/lib/python3.12/sitecustomize.py",
    "demo-2.8.3.data/data/lib/python312.zip"])
def test_what_configures_the_environment_is_refused(quick_place, tmp_path, member):
    wheel = make_wheel(tmp_path, name="demo", requires=(), files={member: b"import os\n"})
    assert member in refusal(quick_place, wheel)["reason"]
