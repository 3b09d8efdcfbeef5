"""`install FILE` and `undo`: what is added, what stays, what is rejected."""
import functools
import hashlib
import http.server
import json
import os
import threading

import pytest

from conftest import EXTENSION_END, compiled, make_wheel, snapshot, visible

OFFICIAL = "cu12torch2.8cxx11abiTRUE"


def test_install_and_undo_leave_the_tree_byte_identical(place, tmp_path):
    old = make_wheel(tmp_path / "a", version="2.7.4", local=OFFICIAL,
                     files={"hopper/__init__.py": b"", "flash_attn/only_old.py": b"1\n"})
    new = make_wheel(tmp_path / "b", version="2.8.3", local=OFFICIAL)
    assert place.run("install", old).returncode == 0
    before = place.tree()
    done = place.run("install", new)
    assert done.returncode == 0, done.all
    assert "installed: flash-attn 2.8.3" in done.stdout
    assert place.python("import flash_attn; print(flash_attn.__version__)").stdout == "2.8.3\n"
    assert not (place.site / "hopper").exists()
    assert not (place.site / "flash_attn" / "only_old.py").exists()
    done = place.run("undo")
    assert done.returncode == 0, done.all
    assert place.tree() == before


def test_first_install_undone_leaves_nothing(place, tmp_path):
    before = place.tree()
    assert place.run("install", make_wheel(tmp_path / "a")).returncode == 0
    assert place.run("undo").returncode == 0
    assert place.tree() == before
    assert place.run("undo").returncode == 1


def test_what_is_installed_is_complete_for_others(place, tmp_path):
    done = place.run("install", make_wheel(tmp_path / "a", local=OFFICIAL))
    assert done.returncode == 0, done.all
    listed = place.python("import importlib.metadata as m; d = m.distribution('flash-attn');"
                          "print(d.version, all(f.locate().exists() for f in d.files),"
                          "d.read_text('INSTALLER').strip())").stdout
    assert listed == f"2.8.3 True {place.installer}\n"


def test_folders_shared_with_other_packages_stay_theirs(quick_place, tmp_path):
    place = quick_place
    a = make_wheel(tmp_path, name="one", files={"shared/a.py": b"1", "shared/deep/x.py": b"1"})
    b = make_wheel(tmp_path, name="two", files={"shared/b.py": b"2"})
    assert place.run("install", a).returncode == 0
    before = place.tree()
    done = place.run("install", b)
    assert done.returncode == 0, done.all
    assert (place.site / "shared/a.py").exists() and (place.site / "shared/b.py").exists()
    assert place.run("undo").returncode == 0
    assert place.tree() == before


def test_a_file_of_another_package_is_not_replaced(quick_place, tmp_path):
    place = quick_place
    assert place.run("install", make_wheel(tmp_path, name="one",
                                           files={"common.py": b"1"})).returncode == 0
    before = place.tree()
    done = place.run("install", make_wheel(tmp_path, name="two", files={"common.py": b"2"}))
    assert done.returncode == 3
    assert "'common.py' already exists and belongs to another package" in done.stderr
    assert place.tree() == before


def test_what_nobody_claims_goes_aside_and_comes_back(quick_place, tmp_path):
    place = quick_place
    (place.site / "flash_attn").mkdir()
    (place.site / "flash_attn/mine.py").write_text("mine")
    before = place.tree()
    done = place.run("install", make_wheel(tmp_path))
    assert done.returncode == 0, done.all
    assert "belongs to no package" in done.stderr
    assert not (place.site / "flash_attn/mine.py").exists()
    assert place.run("undo").returncode == 0
    assert place.tree() == before


def test_scripts_come_and_go(place, tmp_path):
    wheel = make_wheel(tmp_path, name="tool", files={
        "tool-2.8.3.dist-info/entry_points.txt": b"[console_scripts]\ntoolrun = tool:main\n"},
        text="def main():\n    print('ran')\n")
    before = place.tree()
    assert place.run("install", wheel).returncode == 0
    done = place.python("import subprocess, sys, os; print(subprocess.run([os.path.join("
                        "os.path.dirname(sys.executable), 'toolrun')], capture_output=True, "
                        "text=True).stdout)")
    assert done.stdout.strip() == "ran"
    assert place.run("undo").returncode == 0
    assert place.tree() == before


def test_undo_refuses_when_files_changed_since(quick_place, tmp_path):
    place = quick_place
    assert place.run("install", make_wheel(tmp_path / "a", version="2.7.4")).returncode == 0
    before = place.tree()
    assert place.run("install", make_wheel(tmp_path / "b")).returncode == 0
    (place.site / "flash_attn/kernels.bin").write_bytes(b"changed")
    changed = place.tree()
    done = place.run("undo")
    assert done.returncode == 1 and "changed since" in done.stdout
    assert place.tree() == changed
    assert place.run("undo", "--force").returncode == 0
    assert place.tree() == before


def test_undo_goes_back_one_by_one_and_refuses_out_of_order(quick_place, tmp_path):
    place = quick_place
    trees = [place.tree()]
    for version in ("2.6.3", "2.7.4", "2.8.3"):
        assert place.run("install", make_wheel(tmp_path, version=version)).returncode == 0
        trees.append(visible(place.tree()))
    listed = json.loads(place.run("undo", "--list", "--json").stdout)["installations"]
    assert [one["id"] for one in listed] == [3, 2, 1]
    done = place.run("undo", "1")
    assert done.returncode == 1 and "anyflash undo" in done.stdout
    for tree in (trees[2], trees[1], trees[0]):
        assert place.run("undo").returncode == 0
        assert visible(place.tree()) == tree
    assert place.own() == []


def test_what_is_kept_can_be_given_up_and_what_is_installed_stays(quick_place, tmp_path):
    place = quick_place
    for version in ("2.6.3", "2.7.4", "2.8.3"):
        wheel = make_wheel(tmp_path, version=version,
                           files={"flash_attn/large.bin": os.urandom(300_000)})
        assert place.run("install", wheel).returncode == 0
    listed = json.loads(place.run("undo", "--list", "--json").stdout)["installations"]
    assert listed[0]["kept_bytes"] > 300_000 and listed[2]["kept_bytes"] < 100_000
    tree = visible(place.tree())
    done = place.run("undo", "--forget", "2")
    assert done.returncode == 0 and "still installed: flash-attn 2.7.4" in done.stdout, done.all
    assert len(place.own()) == 2
    done = place.run("undo", "--forget")
    assert done.returncode == 0 and "2 installations" in done.stdout, done.all
    assert place.own() == [] and place.tree() == tree
    assert place.run("undo").returncode == 1
    assert place.run("undo", "--forget").returncode == 1


def test_below_what_was_given_up_nothing_is_taken_back_by_itself(quick_place, tmp_path):
    place = quick_place
    for version in ("2.6.3", "2.7.4"):
        assert place.run("install", make_wheel(tmp_path, version=version)).returncode == 0
    assert place.run("undo", "--forget", "2").returncode == 0
    tree = place.tree()
    done = place.run("undo")
    assert done.returncode == 1 and "changed since" in done.stdout, done.all
    assert place.tree() == tree


def test_undo_of_unrelated_package_may_go_first(quick_place, tmp_path):
    place = quick_place
    assert place.run("install", make_wheel(tmp_path, name="one")).returncode == 0
    assert place.run("install", make_wheel(tmp_path, name="two")).returncode == 0
    assert place.run("undo", "1").returncode == 0
    assert (place.site / "two").exists() and not (place.site / "one").exists()


def test_what_does_not_load_is_taken_back(place, tmp_path):
    assert place.run("install", make_wheel(tmp_path / "a", version="2.7.4")).returncode == 0
    before = place.tree()
    done = place.run("install", make_wheel(tmp_path / "b", text="import not_there\n"))
    assert done.returncode == 1
    assert "does not load here: ModuleNotFoundError" in done.stdout + done.stderr
    assert place.tree() == before


MODULE = """
extern void *PyModule_Create2(void *, int);
static struct { long head[5]; const char *name, *doc; long size; void *rest[5]; } module =
    {{1}, "part", 0, -1, {0}};
void *PyInit_part(void) { return PyModule_Create2(&module, 1013); }
"""


@pytest.mark.parametrize("code, loads", [
    (MODULE, True), ("void *PyInit_part(void) { return 0; }\n", False)])
def test_compiled_parts_of_any_package_are_loaded_after_it_was_installed(
        quick_place, tmp_path, code, loads):
    place = quick_place
    name = "one/deep/part" + EXTENSION_END
    wheel = make_wheel(tmp_path, name="one", requires=(),
                       files={name: compiled(tmp_path / "build", code),
                              "one/deep/__init__.py": b""})
    done = place.run("install", wheel)
    assert done.returncode == (0 if loads else 1), done.all
    said = " ".join(done.stdout.split())
    assert ("extensions: yes, 2 loaded" if loads else "extension: no, one.deep.part:") in said
    assert place.run("undo").returncode == 0


def test_a_wrong_hash_stops(quick_place, tmp_path):
    before = quick_place.tree()
    done = quick_place.run("install", make_wheel(tmp_path), "--sha256", "0" * 64)
    assert done.returncode == 3 and "SHA-256" in done.stderr
    assert quick_place.tree() == before


@pytest.mark.parametrize("digest, code", [
    ("0" * 64, 3), ("00", 2), (None, 0)])
def test_the_hash_in_a_url_is_checked(quick_place, tmp_path, digest, code):
    wheel = make_wheel(tmp_path, requires=())
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        before = quick_place.tree()
        url = f"http://127.0.0.1:{server.server_address[1]}/{wheel.name}#sha256={digest}"
        done = quick_place.run("install", url, "--allow-http", env={"no_proxy": "127.0.0.1"})
        server.shutdown()
    assert done.returncode == code, done.all
    assert (quick_place.tree() == before) == (code != 0)
    assert code == 0 or "SHA-256" in done.stderr or "64 hexadecimal digits" in done.stderr


def test_a_way_that_is_not_possible_is_refused_by_a_dry_run_too(quick_place):
    done = quick_place.run("install", "--prefer", "wheel", "--dry-run")
    assert done.returncode == 1 and "not possible" in done.stdout, done.all


def test_a_file_is_not_downloaded(quick_place, tmp_path):
    done = quick_place.run("install", make_wheel(tmp_path), "--download-only", tmp_path / "f")
    assert done.returncode == 2 and "nothing to download" in done.stderr, done.all


def test_a_folder_that_is_not_there_is_an_error(quick_place, tmp_path):
    done = quick_place.run("install", "--from", tmp_path / "none")
    assert done.returncode == 3 and "does not exist" in done.stderr, done.all


def test_dry_run_changes_nothing(quick_place, tmp_path):
    before = quick_place.tree()
    done = quick_place.run("install", make_wheel(tmp_path), "--dry-run")
    assert done.returncode == 0 and "1. install the wheel" in done.stdout
    assert quick_place.tree() == before
    assert not quick_place.state.exists()


@pytest.mark.parametrize("damage", ["no RECORD", "wrong hash", "cut short", "not a zip"])
def test_a_damaged_wheel_changes_nothing(place, tmp_path, damage):
    before = place.tree()
    wheel = make_wheel(tmp_path, record=damage != "no RECORD")
    content = wheel.read_bytes()
    if damage == "cut short":
        wheel.write_bytes(content[:-30])
    if damage == "not a zip":
        wheel.write_bytes(b"<html>not found</html>")
    if damage == "wrong hash":
        import zipfile
        with zipfile.ZipFile(wheel) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
        members["flash_attn/kernels.bin"] = bytes(10240)
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    done = place.run("install", wheel)
    assert done.returncode == 3, done.all
    assert done.stderr.startswith(("error:", "note:"))
    if damage in ("cut short", "not a zip"):
        reason, hint = done.stderr.splitlines()
        assert reason.startswith(f"error: '{wheel}' is truncated or not a zip archive: ")
        assert hint == "hint: download the file again; --sha256 HASH checks its hash"
    assert place.tree() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a tmpfs")
def test_a_full_disk_changes_nothing(quick_place, tmp_path):
    import subprocess
    place = quick_place
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", small])
    if done.returncode != 0:
        pytest.skip("needs root that may mount a tmpfs")
    try:
        real = place.site
        subprocess.run(["cp", "-a", f"{real}/.", small], check=True)
        disk = os.statvfs(small)
        size = (disk.f_blocks - disk.f_bfree) * disk.f_frsize + 600_000
        subprocess.run(["mount", "-o", f"remount,size={size}", small], check=True)
        subprocess.run(["mount", "--bind", small, real], check=True)
        before = snapshot(place.venv)
        done = place.run("install", make_wheel(
            tmp_path / "w", files={"flash_attn/big.bin": os.urandom(3_000_000)}))
        assert done.returncode == 3 and "No space left" in done.stderr, done.all
        assert snapshot(place.venv) == before
    finally:
        subprocess.run(["umount", real])
        subprocess.run(["umount", small])
