"""`anyflash inspect`: checks libraries and wheels made here against this Python."""
import base64
import hashlib
import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
import zipfile

import pytest
from conftest import is_wide

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
from server import File, Server  # noqa: E402  pylint: disable=wrong-import-position

SUFFIX = ".abi3.so"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None,
                                    reason="needs a C compiler: package gcc")
pytestmark = needs_compiler


def build(folder, name, body, *words):
    """Compiles a shared library from C."""
    source = folder / f"{name}.c"
    source.write_text(body, "utf-8")
    path = folder / name
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source, *words], check=True)
    return path


def module(folder, stem="ext", wants=(), padding=0):
    """An extension module that calls the functions `wants`."""
    body = "".join(f"extern void {name}(void);\n" for name in wants)
    if padding:
        body += f"const char block[{padding}] = {{1}};\n"
    calls = "".join(f"{name}();" for name in wants)
    body += f"void *PyInit_{stem}(void) {{ {calls} return 0; }}\n"
    return build(folder, stem + SUFFIX, body)


def wheel(path, members, metadata="Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
          tag="cp39-abi3-linux_x86_64", compression=zipfile.ZIP_DEFLATED, info="demo-1.0"):
    """Writes a wheel with RECORD; members: name -> bytes."""
    members = dict(members)
    members[f"{info}.dist-info/METADATA"] = metadata.encode()
    members[f"{info}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n".encode()
    record = ""
    for name, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        record += f"{name},sha256={digest.rstrip(b'=').decode()},{len(content)}\n"
    members[f"{info}.dist-info/RECORD"] = f"{record}{info}.dist-info/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def inspect(anyflash, *words):
    """The JSON answer and the exit code."""
    answer = anyflash("inspect", *map(str, words), "--json", "--against", sys.executable)
    assert answer.code in (0, 1), answer
    return json.loads(answer.out), answer.code


def check(extension, name):
    return next(row for row in extension["checks"] if row["id"] == name)


def test_a_whole_module_loads(anyflash, tmp_path):
    said, code = inspect(anyflash, module(tmp_path))
    assert said["schema"] == "anyflash-inspect/1" and said["wheel"] is None
    assert (said["verdict"], code) == ("yes", 0)
    assert said["extensions"][0]["missing"] == []


def test_a_truncated_module_does_not_load(anyflash, tmp_path):
    whole = module(tmp_path, padding=60000).read_bytes()
    reason = "'demo/ext.abi3.so' is truncated"
    for size in (1000, len(whole) // 2, whole.index(b"\1" + bytes(1000)) + 59999):
        member = {"demo/ext.abi3.so": whole[:size]}
        path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl", member)
        answer = anyflash("inspect", str(path), "--against", sys.executable)
        assert answer.code == 1 and f"  does not load: {reason}\n" in answer.out, answer


def test_a_missing_function_is_named(anyflash, tmp_path):
    said, code = inspect(anyflash, module(tmp_path, wants=["_ZN3c1011nobody_has_Ev"]))
    assert (said["verdict"], code) == ("no", 1)
    assert said["extensions"][0]["missing"] == ["_ZN3c1011nobody_has_Ev"]
    assert check(said["extensions"][0], "symbols")["answer"] == "no"


def test_the_screen_says_what_is_wrong_in_words(anyflash, tmp_path):
    path = module(tmp_path, wants=["_ZN3c1011nobody_has_Ev"])
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert answer.code == 1
    assert "does not load" in answer.out and "functions it calls exist" in answer.out
    assert "c10::nobody_has_" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 96


def test_a_wheel_is_read_and_nothing_is_left(anyflash, tmp_path):
    content = module(tmp_path).read_bytes()
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl", {"ext.abi3.so": content})
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    answer = anyflash("inspect", str(path), "--json", "--against", sys.executable,
                      env={"TMPDIR": str(temporary)})
    said = json.loads(answer.out)
    assert said["verdict"] == "yes", answer
    assert said["wheel"]["lies"] == [] and said["wheel"]["metadata_name"] == "demo"
    assert os.listdir(temporary) == []


def test_a_library_of_the_wheel_serves_its_extension(anyflash, tmp_path):
    (tmp_path / "demo.libs").mkdir()
    (tmp_path / "demo").mkdir()
    library = build(tmp_path / "demo.libs", "libown.so", "void own_function(void) {}\n")
    linked = build(tmp_path / "demo", "ext" + SUFFIX,
                   "extern void own_function(void);\n"
                   "void *PyInit_ext(void) { own_function(); return 0; }\n",
                   f"-L{tmp_path / 'demo.libs'}", "-lown", "-Wl,-rpath,$ORIGIN/../demo.libs")
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                 {"demo/ext.abi3.so": linked.read_bytes(),
                  "demo.libs/libown.so": library.read_bytes()})
    shutil.rmtree(tmp_path / "demo.libs")
    said, _ = inspect(anyflash, path)
    assert [row["verdict"] for row in said["extensions"]] == ["yes", "yes"], said


def test_libraries_that_a_package_brings_are_shown_only_when_asked(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp27-cp27mu-linux_x86_64.whl",
                 {"demo/ext.abi3.so": module(tmp_path).read_bytes(),
                  "demo.libs/libown.so":
                      build(tmp_path, "libown.so", "void own(void) {}\n").read_bytes()})
    brief = anyflash("inspect", str(path), "--against", sys.executable)
    whole = anyflash("inspect", str(path), "--against", sys.executable, "-v")
    assert "libown.so" not in brief.out and "1 library bundled" in brief.out
    assert "libown.so" in whole.out
    said, _ = inspect(anyflash, path)
    verdicts = {row["name"]: row["verdict"] for row in said["extensions"]}
    assert verdicts == {"demo/ext.abi3.so": "no", "demo.libs/libown.so": "yes"}


def with_sibling(folder):
    """An extension whose library is found only because its package loads it first."""
    folder.mkdir()
    build(folder, "libown.so", "void own_function(void) {}\n", "-Wl,-soname,libown.so")
    body = ("extern void own_function(void);\n"
            "void *PyInit_ext(void) { own_function(); return 0; }\n")
    return build(folder, "ext" + SUFFIX, body, f"-L{folder}", "-lown")


def test_a_package_may_load_what_lies_beside_its_extension(anyflash, tmp_path):
    linked = with_sibling(tmp_path / "demo")
    said, _ = inspect(anyflash, linked)
    assert check(said["extensions"][0], "libraries")["answer"] == "no"
    libraries = (tmp_path / "demo").glob("*.so")
    members = {f"demo/{path.name}": path.read_bytes() for path in libraries}
    named = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl", members)
    said, _ = inspect(anyflash, named)
    row = next(row for row in said["extensions"] if row["name"].endswith("ext.abi3.so"))
    assert row["verdict"] == "yes", row
    assert "libown.so is next to it" in check(row, "libraries")["evidence"]


@pytest.mark.parametrize("name, metadata, lie", [
    ("demo-1.0-cp39-abi3-linux_x86_64.whl", "Name: other\nVersion: 1.0\n", "'other'"),
    ("demo-2.0-cp39-abi3-linux_x86_64.whl", "Name: demo\nVersion: 1.0\n", "version 2.0"),
    ("demo-1.0-cp310-abi3-linux_x86_64.whl", "Name: demo\nVersion: 1.0\n", "WHEEL says"),
])
def test_a_name_that_lies_is_told(anyflash, tmp_path, name, metadata, lie):
    path = wheel(tmp_path / name, {"ext.abi3.so": module(tmp_path).read_bytes()}, metadata)
    said, _ = inspect(anyflash, path)
    assert any(lie in text for text in said["wheel"]["lies"]), said["wheel"]


def test_the_label_of_an_official_wheel_is_no_lie(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0+cu12torch2.8-cp39-abi3-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path).read_bytes()}, "Name: demo\nVersion: 1.0\n")
    said, _ = inspect(anyflash, path)
    assert said["wheel"]["lies"] == []


def test_a_wheel_for_another_python_does_not_load(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp27-cp27mu-linux_x86_64.whl",
                 {"ext.so": module(tmp_path).read_bytes()}, tag="cp27-cp27mu-linux_x86_64")
    said, code = inspect(anyflash, path)
    assert code == 1 and check(said["extensions"][0], "python")["answer"] == "no"


@pytest.mark.parametrize("content, words", [
    (b"<!DOCTYPE html><html>", "a web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
])
def test_what_is_no_wheel_is_named(anyflash, tmp_path, content, words):
    (tmp_path / "a.whl").write_bytes(content)
    answer = anyflash("inspect", "a.whl", "--against", sys.executable)
    assert answer.code == 3 and words in answer.err, answer


def test_a_bad_wheel_far_away_gets_the_answer_of_the_file(anyflash, tmp_path):
    name = "demo-1.0-cp39-abi3-linux_x86_64.whl"
    content = module(tmp_path, wants=["nobody_has_it", "abort"], padding=2 << 20).read_bytes()
    path = wheel(tmp_path / name, {"ext.abi3.so": content})
    here, _ = inspect(anyflash, path)
    with Server() as server:
        server.files[name] = File(path.read_bytes())
        said, code = inspect(anyflash, server.url(name), "--allow-http")
    assert code == 1 and said["extensions"][0]["missing"] == ["nobody_has_it"]
    assert said["extensions"] == here["extensions"]


def test_a_wheel_far_away_is_downloaded_and_not_kept(anyflash, tmp_path):
    name = "demo-1.0-cp39-abi3-linux_x86_64.whl"
    path = wheel(tmp_path / name, {"ext.abi3.so": module(tmp_path).read_bytes()})
    with Server() as server:
        server.files[name] = File(path.read_bytes())
        answer = anyflash("inspect", server.url(name), "--json", "--allow-http", "--against",
                          sys.executable, env={"ANYFLASH_CACHE": str(tmp_path / "cache")})
    said = json.loads(answer.out)
    assert (said["verdict"], answer.code) == ("yes", 0), answer
    assert said["wheel"]["size_bytes"] == path.stat().st_size
    assert not [file for _, _, files in os.walk(tmp_path / "cache") for file in files]


def test_nothing_to_inspect_is_said(anyflash, tmp_path):
    assert anyflash("inspect", "absent.so", "--against", sys.executable).code == 3
    assert anyflash("inspect").code == 2
    (tmp_path / "empty").mkdir()
    answer = anyflash("inspect", "empty", "--against", sys.executable)
    assert answer.code == 1 and "no compiled extension" in answer.out


@pytest.mark.parametrize("tag, code, words", [
    ("py3-none-any", 0, "Python code only"),
    ("cp312-cp312-linux_x86_64", 1, "although its name says"),
])
def test_a_wheel_without_extensions(anyflash, tmp_path, tag, code, words):
    path = wheel(tmp_path / f"demo-1.0-{tag}.whl", {"demo.py": b"pass\n"}, tag=tag)
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert answer.code == code and words in answer.out, answer


def test_files_of_a_folder_are_named_within_it(anyflash, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    module(tmp_path / "in" / "deep")
    said, _ = inspect(anyflash, str(tmp_path / "in") + "/")
    assert [row["name"] for row in said["extensions"]] == ["deep/ext.abi3.so"]


def test_the_next_step_is_told(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp27-cp27mu-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path).read_bytes()}, tag="cp27-cp27mu-linux_x86_64")
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"next     use a file built for Python {here}" in answer.out, answer


def test_without_torch_the_torch_to_install_is_named(anyflash, tmp_path):
    wants = ["_ZN3c1019UndefinedTensorImpl10_singletonE"]
    path = wheel(tmp_path / "demo-1.0+cu12torch2.3-cp39-abi3-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path, wants=wants).read_bytes()})
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert answer.code == 1
    assert "next     install torch 2.3, which this file belongs to" in answer.out, answer


def test_a_torch_that_is_no_version_is_refused(anyflash, tmp_path):
    answer = anyflash("inspect", str(module(tmp_path)), "--torch", "newest")
    assert answer.code == 2 and "--torch takes a version" in answer.err, answer


def test_a_wheel_that_loads_can_be_installed_next(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path).read_bytes()})
    answer = anyflash("inspect", path.name, "--against", sys.executable)
    assert f"anyflash install {path.name} --python {sys.executable}" in answer.out, answer
    elsewhere = anyflash("inspect", path.name, "--torch", "2.9.1+cu128")
    assert "install" not in elsewhere.out


def test_a_narrow_terminal_gets_narrow_lines(anyflash, tmp_path):
    path = module(tmp_path, wants=["_ZN3c1011nobody_has_Ev"])
    words = [anyflash.program, "inspect", str(path), "--against", sys.executable]
    home = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": "1"}
    child, terminal = pty.fork()
    if child == 0:
        termios.tcsetwinsize(1, (24, 72))
        os.execve(words[0], words, home)
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:
        pass  # the other end of the terminal was closed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    lines = said.decode().splitlines()
    assert len(lines) > 5 and not any(is_wide(line, 72) for line in lines), said


FLASH = "flash_attn-2.8.3-cp39-abi3-linux_x86_64.whl"


def test_what_a_wheel_contains_beside_its_package_is_named(anyflash, tmp_path):
    extension = build(tmp_path, "flash_attn_2_cuda.abi3.so",
                      "void *PyInit_flash_attn_2_cuda(void) { return 0; }\n",
                      "-Wl,-rpath,/opt/build/lib")
    path = wheel(tmp_path / FLASH, {"flash_attn/__init__.py": b"", "zz.pth": b"import os",
                                    extension.name: extension.read_bytes()},
                 info="flash_attn-2.8.3")
    said, _ = inspect(anyflash, path)
    content = said["wheel"]["content"]
    assert content["package"] == "flash-attn" and content["unlisted"] == 0
    found = [(row["kind"], row["name"], row["detail"], row["refused"])
             for row in content["unexpected"]]
    assert found == [("pth-file", "zz.pth", None, True),
                     ("build-path", extension.name, "/opt/build/lib", False)]
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert "unexpected: zz.pth: Python runs its lines whenever it starts" in answer.out
    assert "--allow-content" in " ".join(answer.out.split()), answer


def test_a_wheel_like_the_authors_has_nothing_beside_its_package(anyflash, tmp_path):
    path = wheel(tmp_path / FLASH, {"flash_attn/__init__.py": b"", "hopper/__init__.py": b""},
                 info="flash_attn-2.8.3")
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert "nothing beside what flash-attn's own wheels contain" in answer.out, answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_unpacked(anyflash, tmp_path, number):
    library = module(tmp_path).read_bytes() + os.urandom(8 << 20) * 8
    members = {f"demo/e{i}.abi3.so": library for i in range(8)}
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl", members,
                 compression=zipfile.ZIP_STORED)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [anyflash.program, "inspect", str(path), "--against", sys.executable],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 20
    while not list(temporary.rglob("*.so")) and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode in (0, 1, 130)  # 0 or 1: it was done before
    assert os.listdir(temporary) == []


def test_a_file_that_is_no_library_is_not_unpacked(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                 {"demo/a.so": b"GROUP ( libc.so.6 )\n"})
    answer = anyflash("inspect", str(path), "--against", sys.executable,
                      env={"TMPDIR": str(tmp_path / "temporary")})
    assert answer.code == 1 and "'demo/a.so' is not an ELF file" in answer.out, answer


def test_a_long_record_is_compared_in_time(anyflash, tmp_path):
    info = "demo-1.0.dist-info"
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5000):
            archive.writestr(f"demo/m{i:05}.py", b"")
        archive.writestr(f"{info}/METADATA", "Name: demo\nVersion: 1.0\n" + "\n" * (300 << 10))
        archive.writestr(f"{info}/RECORD", b"a\n" * (8 << 20))
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert "not match RECORD, for example a" in answer.out, answer


def test_the_first_line_is_the_answer(anyflash, tmp_path):
    path = module(tmp_path)
    answer = anyflash("inspect", str(path), "--against", sys.executable)
    assert answer.out.splitlines()[0] == "ext.abi3.so: loads", answer
    packed = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                   {"ext.abi3.so": path.read_bytes(), "zz.pth": b"import os"})
    answer = anyflash("inspect", str(packed), "--against", sys.executable)
    assert answer.out.splitlines()[0] == \
        f"{packed.name}: loads, but contains what `anyflash install` refuses", answer
    bad = module(tmp_path, wants=["_ZN3c1011nobody_has_Ev"])
    answer = anyflash("inspect", str(bad), "--against", sys.executable)
    assert answer.out.splitlines()[0] == "ext.abi3.so: does not load", answer


def test_no_gpu_code_is_not_called_code_for_the_gpus(anyflash, tmp_path):
    answer = anyflash("inspect", str(module(tmp_path)), "--against", sys.executable)
    assert "code for the GPUs: none is needed, the file holds no GPU code" in answer.out, answer


def test_the_next_command_is_quoted(anyflash, tmp_path):
    folder = tmp_path / "q;touch PWNED;$(id)"
    folder.mkdir()
    path = wheel(folder / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path).read_bytes()})
    name = f"{folder.name}/{path.name}"
    answer = anyflash("inspect", name, "--against", sys.executable)
    assert f"anyflash install '{name}'" in answer.out, answer


def test_a_signature_in_an_address_is_not_printed(anyflash, tmp_path):
    path = wheel(tmp_path / "demo-1.0-cp39-abi3-linux_x86_64.whl",
                 {"ext.abi3.so": module(tmp_path).read_bytes()})
    with Server() as server:
        server.files[path.name] = File(path.read_bytes())
        answer = anyflash("inspect", server.url(path.name) + "?sig=SECRET", "--allow-http",
                          "--against", sys.executable)
    assert answer.code == 0 and "SECRET" not in answer.out + answer.err, answer
    assert "anyflash install --allow-http ADDRESS" in answer.out, answer
