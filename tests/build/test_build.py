"""`anyflash build`: the wheel has the kernels that were asked for, and nothing is lost."""
import gzip
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from world import FILES, ROOT, SELECTION, VERSION, World, write

import make_pack
import nvrtc
import pack_file

NAMES = gzip.decompress(
    (ROOT / "packaging" / "kernels" / "kernel_names.txt.gz").read_bytes()).decode().splitlines()
MAIN_BACKWARD = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"
PRINT_PACK = os.environ["ANYFLASH_PRINT_PACK"]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def kernels_of(wheel, folder):
    """The names of the kernels in a wheel, as Python and as the engine read them."""
    with zipfile.ZipFile(wheel) as archive:
        member = f"flash_attn_2_cuda/flash-attn-{VERSION}.kernels"
        path = archive.extract(member, folder)
    os.chmod(path, 0o644)
    done = subprocess.run([PRINT_PACK, path], capture_output=True, text=True, check=True)
    read = [line.split("\t")[0] for line in done.stdout.splitlines() if "\t" in line
            and line.split()[0] in {name.split()[0] for name in NAMES}]
    pack = pack_file.Pack(path)
    assert read == list(pack.kernels), "two readers of one file"
    for name in pack.kernels:
        assert f"// {name}\n" in pack.module(name), "a module is the one of its name"
    return set(read)


def expected(sizes, types, features, backward):
    """The kernels that a selection needs; written anew, by the order of the arguments."""
    found = {"af_fill", "af_clear", "af_sum_groups_fp16", "af_sum_groups_bf16"}
    for name in NAMES:
        kind, *words = name.split()
        if kind.startswith("af_") or ("_bwd_" in kind and not backward):
            continue
        words = words[1:] if "dot_do_o" in kind else words
        at = next(i for i, word in enumerate(words) if word in ("bf16", "fp16"))
        flags = [None, "window", "alibi", None, None, "softcap"]
        flags = (flags if kind == "flash_fwd_splitkv_kernel" else
                 ["dropout", *flags] if kind in ("flash_fwd_kernel", MAIN_BACKWARD) else [])
        left_out = any(flag == "1" and feature and feature not in features
                       for feature, flag in zip(flags, words[at + 1:]))
        if words[0] in sizes and words[at] in types and not left_out:
            found.add(name)
    return found


def options_of(sizes, types, features, backward):
    return ("--head-dim", ",".join(sizes), "--dtype", ",".join(types), "--features",
            ",".join(features) or "none", *(() if backward else ("--inference",)))


def drawn():
    """Selections at random, the least and the whole."""
    draw = random.Random(20261129)
    yield ["32"], ["fp16"], [], False
    for _ in range(6):
        some = [draw.sample(list(words), draw.randint(least, most)) for words, least, most in (
            (make_pack.HEAD_DIMS, 1, 2), (make_pack.DTYPES, 1, 2), (make_pack.FEATURES, 0, 4))]
        yield *some, draw.random() < 0.5
    yield list(make_pack.HEAD_DIMS), list(make_pack.DTYPES), list(make_pack.FEATURES), True


@pytest.mark.parametrize("selection", drawn(), ids=map(str, range(8)))
def test_the_wheel_has_what_was_asked_for_and_nothing_else(world, selection):
    whole = len(selection[0]) == len(make_pack.HEAD_DIMS)
    said = world.run(*(("--full",) if whole else options_of(*selection)))
    assert said.code == 0, said
    wheel = world.wheel(said)
    assert kernels_of(wheel, world.folder) == expected(*selection)
    assert not whole or kernels_of(wheel, world.folder) == set(filter(None, NAMES))


def test_the_wheel_is_flash_attns_package_with_our_library(world):
    said = world.run()
    name = f"flash_attn-{VERSION}+any.ptx.hd64.bf16.forward.split.plain"
    assert said.code == 0 and world.wheel(said).name.startswith(name + "-py3-none-manylinux_2_")
    with zipfile.ZipFile(world.wheel(said)) as archive:
        names = archive.namelist()
        about = archive.read(f"{name}.dist-info/METADATA").decode()
        library = archive.read("flash_attn_2_cuda/libanyflash_cuda.so")
    info = [f"{name}.dist-info/{one}" for one in (
        "METADATA", "RECORD", "WHEEL", "licenses/AUTHORS", "licenses/LICENSE",
        "licenses/LICENSE.anyflash", "licenses/kernels.txt", "licenses/zstd.txt")]
    module = [f"flash_attn_2_cuda/{one}" for one in (
        "__init__.py", f"flash-attn-{VERSION}.kernels", "libanyflash_cuda.so")]
    package = [one for one in FILES if one.startswith("flash_attn/") and one.endswith(".py")]
    assert sorted(names) == sorted([*info, *module, *package])
    assert library.startswith(b"\x7fELF") and "Requires-Dist: einops" in about
    assert f"Version: {VERSION}+any.ptx.hd64.bf16.forward.split.plain" in about


def test_a_build_that_grows_compiles_only_what_is_new(world):
    first = world.run(*options_of(["64"], ["bf16"], [], False))
    again = world.run(*options_of(["64"], ["bf16"], [], False))
    more = world.run(*options_of(["64", "128"], ["bf16"], [], False))
    assert first.code == again.code == more.code == 0, more
    assert again.compiled == [] and world.wheel(again) == world.wheel(first)
    assert more.compiled and not set(more.compiled) & set(first.compiled), more


@pytest.mark.parametrize("umask", [0o002, 0o000])
def test_nobody_else_may_write_what_later_builds_use(world, umask):
    before = os.umask(umask)
    try:
        first, again = world.run(), world.run()
    finally:
        os.umask(before)
    assert first.code == again.code == 0 and again.compiled == [], again
    made = world.folder.glob("cache/build/[0-9a-f]*/**/*")
    assert not [path for path in made if path.stat().st_mode & 0o022]
    script, = world.folder.glob("cache/build/*/scripts/packaging/wheel_file.py")
    script.chmod(0o666)  # as an older version left it
    assert world.run().code == 0 and script.stat().st_mode & 0o022 == 0


def test_files_of_the_current_folder_and_of_pythonpath_do_not_run(world):
    for name in ("gzip.py", "zipfile.py", "sitecustomize.py", "ctypes.py", "compiler.py"):
        write(world.folder / name, f"open({str(world.folder / 'ran')!r}, 'w')\n1 / 0\n")
    said = [world.run(*words, more={"PYTHONPATH": f"{world.folder}:"}) for words in (
        ("--check",), SELECTION)]
    assert not (world.folder / "ran").exists() and said[1].code == 0, said


@pytest.mark.parametrize("name, cut", [("members", 0), ("k*", 0), ("k*", 400), ("small", 0)])
def test_ptx_that_a_crash_has_cut_is_removed_and_made_again(world, name, cut):
    assert world.run().code == 0
    path = next(world.folder.glob(f"cache/build/*/ptx/*/{name}.ptx"))
    path.write_text(path.read_text()[:cut])
    said = world.run()
    assert said.code == 1 and "was damaged and is removed" in said.err, said
    said = world.run()
    assert said.code == 0 and said.compiled == [f"{path.stem}.cu"], said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_goes_on_where_it_stopped(world, number):
    slow = {"FAKE_NVRTC_SLEEP": "0.4"}
    whole = len(world.run().compiled)
    for made in (*world.folder.glob("cache/build/*/ptx"), *world.folder.glob("*/*/*/wheels")):
        shutil.rmtree(made)
    process = world.start(*SELECTION, "--jobs", "1", more=slow)
    world.interrupt_when(process, 3, number)
    said = world.said(process)
    assert said.code != 0 and "anyflash install" not in said.out, said
    time.sleep(0.5)  # of compilers that a killed parent left behind
    done = len(list(world.folder.glob("cache/build/*/ptx/nvrtc-13.0/*.ptx")))
    assert not list(world.folder.glob("cache/build/*/wheels/*.whl"))
    last = world.run()
    assert last.code == 0 and done >= 2, last
    assert len(last.compiled) == whole - done, (last, whole, done)


def processes():
    """The commands of all processes."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().decode(errors="replace")
        except OSError:
            pass  # it ended


def test_ctrl_c_leaves_no_compiler_behind(world):
    process = world.start(*SELECTION, "--jobs", "2", more={"FAKE_NVRTC_SLEEP": "30"})
    world.interrupt_when(process, 2)
    said = world.said(process)
    assert said.code == 130 and not any(
        str(world.folder) in command for command in processes()), said


def test_why_a_kernel_does_not_compile_is_shown_and_the_rest_is_kept(world):
    said = world.run(*SELECTION, more={"FAKE_NVRTC_FAIL": "the layout of the kernels"})
    assert said.code == 1 and "k.cu(7): error: it does not compile" in said.err, said
    assert "our own members.cu" in said.err and "not built: " in said.out, said
    kept = set(said.compiled) - {"members.cu"}
    said = world.run()
    assert said.code == 0 and kept and not kept & set(said.compiled), said


@pytest.fixture
def pack(world):
    """A pack, as `make kernels` leaves it."""
    path = world.folder / "given" / f"flash-attn-{VERSION}-hd64.kernels"
    with zipfile.ZipFile(world.wheel(world.run())) as archive:
        content = archive.read(f"flash_attn_2_cuda/flash-attn-{VERSION}.kernels")
    path.parent.mkdir()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_pack_is_taken_as_it_is_and_nothing_is_compiled(world, pack, named):
    said = world.run("--pack", pack if named == "file" else pack.parent)
    assert said.code == 0 and said.compiled == [], said
    wheel = world.wheel(said)
    assert wheel.name.startswith(f"flash_attn-{VERSION}+any.ptx.hd64-")
    assert kernels_of(wheel, world.folder) == expected(["64"], ["bf16"], [], False)


@pytest.mark.parametrize("spoil, text", [
    (lambda pack: pack.write_bytes(b""), "does not begin like a pack"),
    (lambda pack: pack.write_bytes(pack.read_bytes()[:-1]), "should have"),
    (lambda pack: pack.write_bytes(pack.read_bytes()[:60] + b"?" + pack.read_bytes()[61:]),
     "is not what was written"),
    (lambda pack: pack.write_bytes(pack.read_bytes()[:-400] + b"?" + pack.read_bytes()[-399:]),
     "is not what was written"),
    (lambda pack: pack.unlink(), "cannot read"),
    (lambda pack: pack.with_name("b.kernels").write_bytes(b""), "several files"),
])
def test_a_pack_that_is_not_whole_is_refused(world, pack, spoil, text):
    spoil(pack)
    said = world.run("--pack", pack.parent if text == "several files" else pack)
    assert said.code == 3 and text in said.err and not said.compiled, said
    assert "anyflash install" not in said.out


@pytest.mark.parametrize("name", [
    "mine", "flash-attn-2.8.3.post2", "flash-attn-2.8.3.post2 (1)",
    "flash-attn-2.8.3.post2-x\nRequires-Dist: evil"])
def test_no_part_is_called_the_whole_and_no_name_is_pasted(world, pack, name):
    named = pack.rename(pack.with_name(f"{name}.kernels"))
    said = world.run("--pack", named)
    assert said.code == 0 and "+any.ptx.part-py3-none" in world.wheel(said).name, said
    with zipfile.ZipFile(world.wheel(said)) as archive:
        about = next(one for one in archive.namelist() if one.endswith("METADATA"))
        assert b"evil" not in archive.read(about)


@pytest.mark.parametrize("words", [SELECTION, ("--full",), ("--jobs", "2"), ("--check",)])
def test_a_pack_and_a_selection_exclude_each_other(world, pack, words):
    said = world.run("--pack", pack, *words)
    assert said.code == 2 and "cannot be used with --pack" in said.err, said


def test_a_pack_that_is_not_there_is_told_by_a_dry_run_too(world):
    said = world.run("--pack", world.folder / "none", "--dry-run")
    assert said.code == 3 and "cannot read" in said.err, said


def test_an_address_needs_the_network(world):
    said = world.run("--pack", "https://me:secret@x.invalid/some.kernels?token=secret")
    assert said.code == 3 and "--offline" in said.err, said
    assert "secret" not in said.out + said.err, said


@pytest.mark.parametrize("words, text", [
    (("--dtype", "bf16"), "say what to build"),
    (("--head-dim", "300"), "head size '300' is not valid"),
    (("--head-dim", "64", "--jobs", "0"), "--jobs takes a number"),
    (("--check", "--arch", "7.5"), "compute capabilities from 8.0"),
    (("--head-dim", "64", "--features", "speed"), "feature 'speed' is not valid"),
])
def test_words_that_say_nothing_are_refused(world, words, text):
    said = world.run(*words)
    assert said.code == 2 and text in said.err and not said.compiled, said


def test_the_same_build_at_once_is_refused(world):
    first = world.start(*SELECTION, more={"FAKE_NVRTC_SLEEP": "2"})
    try:
        while not world.compiled():
            assert first.poll() is None
        said = world.run()
        assert said.code == 3 and "another build is running in" in said.err, said
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate(timeout=60)


UV = """#!/bin/sh
echo "$@" >>{calls}
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/nvidia/cu13/lib" "$2/nvidia/cu13/include/cuda/std"
cp {library} "$2/nvidia/cu13/lib/libnvrtc.so.13"
touch "$2/nvidia/cu13/include/cuda_fp16.h" "$2/nvidia/cu13/include/cuda/std/utility"
"""


@pytest.mark.parametrize("lacks, packages", [
    ("include/cuda", {"cccl"}),  # as a torch for CUDA
    ("lib64", {"nvrtc", "runtime", "cccl"}),
    ("include/cuda_fp16.h", {"nvrtc", "runtime", "cccl"}),
])
def test_only_what_is_missing_is_downloaded_and_once(world, lacks, packages):
    calls = world.folder / "calls"
    write(world.folder / "bin" / "uv",
          UV.format(calls=calls, library=world.cuda / "kept.so"), 0o755)
    shutil.copy(world.cuda / "lib64" / "libnvrtc.so.13", world.cuda / "kept.so")
    lost = world.cuda / lacks
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    said = world.run()
    assert said.code == 0, said
    asked = {word.split("==")[0].removeprefix("nvidia-cuda-").removesuffix("-cu12")
             for word in calls.read_text().split() if word.startswith("nvidia-")}
    assert asked == packages and world.run().code == 0
    assert len(calls.read_text().splitlines()) == 1
    cleaned = world.run_clean()
    assert "from the package index" in cleaned, cleaned


def test_sources_that_are_not_the_published_ones_are_refused(world):
    world.lock("0" * 64)
    said = world.run()
    assert said.code == 3 and "cannot be downloaded" in said.err and not said.compiled, said
    world.pack(FILES)
    python = world.folder / "bin" / "python3"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")  # with the true digest
    said = world.run()
    assert said.code == 1 and "are not those of flash-attn" in said.err, said


def test_json_has_the_wheel_and_nothing_else_on_stdout(world):
    said = world.run(*SELECTION, "--json")
    told = json.loads(said.out)
    assert told["wheel"].endswith(".whl") and told["reason"] is None and told["pack"] is None
    checked = world.run("--check", "--json", "--arch", "90")
    rows = {row["name"]: row for row in json.loads(checked.out)["prerequisites"]}
    assert rows["sources"]["verdict"] == "yes" and rows["python"]["verdict"] == "yes", checked


def test_flash_attns_own_variable_counts_as_targets(world):
    for text, refused in (("80;90", False), ("75", True), ("fast;80", True)):
        said = world.run("--check", more={"FLASH_ATTN_CUDA_ARCHS": text})
        assert (said.code == 2) == refused == ("FLASH_ATTN_CUDA_ARCHS" in said.err), said
        assert world.run(*SELECTION, more={"FLASH_ATTN_CUDA_ARCHS": text}).code == 0


def test_every_program_is_named_by_its_contents():
    some = [name for name in NAMES if " 96 " in name and " " in name]
    texts = [nvrtc.program(some[at:at + 3]) for at in range(0, len(some), 3)]
    assert len(set(texts)) == len(texts)
    for kind, group in itertools.groupby(sorted(some), key=lambda name: name.split()[0]):
        text = nvrtc.program(list(group))
        assert text.count("__global__") >= 1 and "flash" in text, kind
