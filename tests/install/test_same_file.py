"""What is installed is what was checked: one private copy of the wheel, and no file that its
list of members lacks."""
import hashlib
import json
import struct
import zlib

import pytest

from conftest import UV, make_wheel

ODD_FOLDERS = ["a${TERM}", "a#b", "a;b", "a\nb", "a b%20c", "a'b\"c"]


@pytest.mark.parametrize("folder", ODD_FOLDERS)
def test_a_path_means_itself(place, tmp_path, folder):
    wheel = make_wheel(tmp_path / folder, name="foo", requires=(), text="here = 'asked for'")
    other = make_wheel(tmp_path / folder.replace("${TERM}", "xterm"), name="foo", requires=(),
                       text="here = 'another'") if "TERM" in folder else None
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    done = place.run("install", wheel, "--sha256", digest)
    assert done.returncode == 0, done.all
    assert place.python("import foo; print(foo.here)").stdout == "asked for\n", other


def test_a_wheel_that_is_swapped_while_it_is_checked_is_not_installed(place, tmp_path):
    """The installer that is started swaps the wheel before it does anything else."""
    wheel = make_wheel(tmp_path / "a", name="foo", requires=(), text="here = 'checked'")
    swapped = make_wheel(tmp_path / "b", name="foo", requires=(), text="here = 'swapped'")
    swap = f"cp {swapped} {wheel}.new && mv {wheel}.new {wheel}"
    if place.installer == "uv":
        (place.bin / "uv").unlink()
        (place.bin / "uv").write_text(f"#!/bin/sh\n{swap}\nexec {UV} \"$@\"\n")
        (place.bin / "uv").chmod(0o755)
    else:
        (place.site / "swap.pth").write_text(
            f"import shutil, os; shutil.copy('{swapped}', '{wheel}.new'); "
            f"os.replace('{wheel}.new', '{wheel}')\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    done = place.run("install", wheel, "--sha256", digest)
    assert wheel.read_bytes() == swapped.read_bytes()
    assert done.returncode == 0, done.all
    assert place.python("import foo; print(foo.here)").stdout == "checked\n"


def test_the_installer_compares_the_hash_and_its_copy_is_private(place, tmp_path):
    """An installer that reports what it was given, and fails."""
    wheel = make_wheel(tmp_path / "a", name="foo", requires=())
    script = "#!/bin/sh\n[ $1 = --version ] && exec echo uv 0.13.9\n" \
             f"echo \"$@\" > {tmp_path}/words\nstat -c %a {place.site}/.anyflash-new-* > " \
             f"{tmp_path}/mode\ncp {place.site}/.anyflash-new-*/wheels/* {tmp_path}/given\n" \
             "exit 1\n"
    if place.installer == "pip":
        python = place.venv / "bin/python3"
        pytest.skip(f"pip is a module of {python.name}")
    (place.bin / "uv").unlink()
    (place.bin / "uv").write_text(script)
    (place.bin / "uv").chmod(0o755)
    assert place.run("install", wheel).returncode == 3
    digest = hashlib.sha256((tmp_path / "given").read_bytes()).hexdigest()
    words = (tmp_path / "words").read_text()
    assert f"foo @ file://{place.site}/.anyflash-new-" in words
    assert words.rstrip().endswith(f".whl#sha256={digest}")
    assert (tmp_path / "mode").read_text() == "700\n"


def test_the_origin_of_a_file_is_the_file_of_the_user(place, tmp_path):
    wheel = make_wheel(tmp_path / "a b", name="foo", local="cu12", requires=())
    assert place.run("install", wheel).returncode == 0
    info = place.site / "foo-2.8.3.dist-info"
    origin = json.loads((info / "direct_url.json").read_text())
    assert origin["url"] == f"file://{str(wheel).replace(' ', '%20').replace('+', '%2B')}"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert origin["archive_info"]["hashes"] == {"sha256": digest}
    assert not (info / "uv_cache.json").exists()
    assert not (place.home / ".cache/uv").exists()


def unpacks_more(place, extra, text=""):
    """Makes the installer write one more file, or other content, as one does that reads a list
    differently."""
    if place.installer == "uv":
        (place.bin / "uv").unlink()
        (place.bin / "uv").write_text(
            f"#!/bin/sh\n{UV} \"$@\" || exit\n"
            "while [ $# -gt 0 ]; do [ $1 = --prefix ] && root=$2; shift; done\n"
            f"[ -z \"$root\" ] || printf '%s' '{text}' >$root/{extra}\n")
        (place.bin / "uv").chmod(0o755)
    else:
        (place.site / "more.pth").write_text("import more_files\n")
        (place.site / "more_files.py").write_text(
            "import atexit, sys, pathlib\nw = sys.orig_argv\n"
            f"more = lambda: pathlib.Path(w[w.index('--prefix') + 1], {extra!r})"
            f".write_text({text!r})\n"
            "'--prefix' in w and atexit.register(more)\n")


@pytest.mark.parametrize("where", ["{lib}/evil.pth", "{lib}/foo/more.py", "bin/evil",
                                   "{lib}/foo-2.8.3.dist-info/extra.json"])
def test_a_file_that_is_no_member_stops(place, tmp_path, where):
    unpacks_more(place, where.format(lib=place.site.relative_to(place.venv)))
    wheel = make_wheel(tmp_path, name="foo", requires=(), files={
        "foo-2.8.3.dist-info/entry_points.txt": b"[console_scripts]\nfoorun = foo:main\n"})
    before = place.tree()
    done = place.run("install", wheel)
    assert done.returncode == 3, done.all
    assert "which is not in the wheel's file list" in done.stderr
    assert place.tree() == before


@pytest.mark.parametrize("where", [
    "{lib}/foo/__init__.py", "{lib}/foo-2.8.3.dist-info/METADATA", "bin/one.sh",
    "share/foo/x.txt"])
def test_another_content_stops(place, tmp_path, where):
    unpacks_more(place, where.format(lib=place.site.relative_to(place.venv)), "other")
    data = "foo-2.8.3.data"
    wheel = make_wheel(tmp_path, name="foo", requires=(), files={
        f"{data}/scripts/one.sh": b"#!python\nexit()\n", f"{data}/data/share/foo/x.txt": b"1"})
    before = place.tree()
    done = place.run("install", wheel)
    assert done.returncode == 3, done.all
    assert "with another content than the wheel has" in done.stderr
    assert place.tree() == before


def test_every_kind_of_member_is_known(place, tmp_path):
    data = "foo-2.8.3.data"
    wheel = make_wheel(tmp_path, name="foo", requires=(), files={
        f"{data}/scripts/one.sh": b"#!python\n", f"{data}/data/share/foo/x.txt": b"1",
        f"{data}/headers/deep/foo.h": b"1", f"{data}/platlib/plat.py": b"",
        f"{data}/purelib/pure/__init__.py": b"",
        "foo/__pycache__/__init__.cpython-311.pyc": b"",
        "foo-2.8.3.dist-info/licenses/LICENSE": b"",
        "foo-2.8.3.dist-info/entry_points.txt":
            b"[console_scripts]\nfoo-run = foo:main\n\n[gui_scripts]\nfoo.gui=foo:main\n"})
    before = place.tree()
    done = place.run("install", wheel, "--allow-content", "plat.py", "--allow-content", "pure/")
    assert done.returncode == 0, done.all
    for path in ("bin/one.sh", "bin/foo-run", "bin/foo.gui", "share/foo/x.txt"):
        assert (place.venv / path).is_file(), path
    assert (place.site / "plat.py").is_file() and (place.site / "pure").is_dir()
    assert place.run("undo").returncode == 0
    assert place.tree() == before


def with_unicode_path(wheel, member, name):
    """Renames a member for readers that know Info-ZIP's Unicode Path field (0x7075)."""
    content = bytearray(wheel.read_bytes())
    old, new = member.encode(), name.encode()
    field = struct.pack("<HHBL", 0x7075, 5 + len(new), 1, zlib.crc32(old)) + new
    at = content.index(b"PK\1\2")
    while content[at:at + 4] == b"PK\1\2":
        name_len, extra_len, note_len = struct.unpack_from("<HHH", content, at + 28)
        if content[at + 46:at + 46 + name_len] == old:
            struct.pack_into("<H", content, at + 30, extra_len + len(field))
            content[at + 46 + name_len:at + 46 + name_len] = field
            extra_len += len(field)
        at += 46 + name_len + extra_len + note_len
    end = content.rindex(b"PK\5\6")
    size, = struct.unpack_from("<L", content, end + 12)
    struct.pack_into("<L", content, end + 12, size + len(field))
    wheel.write_bytes(content)
    return wheel


def test_a_member_with_a_second_name_is_not_installed(place, tmp_path):
    wheel = with_unicode_path(
        make_wheel(tmp_path, name="foo", requires=(), files={"foo/ops/x.py": b"import os\n"}),
        "foo/ops/x.py", "evil.pth")
    before = place.tree()
    done = place.run("install", wheel)
    if done.returncode == 0:  # this installer does not know the field
        assert not (place.site / "evil.pth").exists()
    else:
        assert place.tree() == before
