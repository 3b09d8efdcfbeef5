"""make_pack.py from its arguments to the file, with a program in the place of nvcc."""

import os
import re
import subprocess
import sys

import make_pack
import pytest
import sources
from conftest import KERNELS
from pack_file import Pack

ROOT = KERNELS.parents[1]
#: Compiles by copying PTX that was recorded, and lists what it was asked for.
NVCC = """#!{python}
import pathlib, shutil, sys
if sys.argv[1:] == ["--version"]:
    print("Cuda compilation tools, release 13.0, V13.0.88")
    sys.exit()
here = pathlib.Path(__file__).parent
source = pathlib.Path(sys.argv[-1]).stem
with open(here / "calls", "a") as calls:
    print(source, file=calls)
if (here / "broken").exists() and source.startswith("flash"):
    sys.exit("out of memory")
kind = source if source in ("small", "members") else "fp16" if "fp16" in source else "bf16"
shutil.copy(here / (kind + ".ptx"), sys.argv[sys.argv.index("-o") + 1])
"""


@pytest.fixture
def folder(tmp_path, recorded, twins, monkeypatch):
    """A folder with nvcc and sources, from which run() makes packs."""
    for name, text in [("bf16", twins[0]), ("fp16", twins[1]), *recorded.items()]:
        (tmp_path / f"{name}.ptx").write_text(text)
    (tmp_path / "nvcc").write_text(NVCC.format(python=sys.executable))
    (tmp_path / "nvcc").chmod(0o755)
    tree = tmp_path / "a tree"
    for name in (f"{sources.KERNELS}/x.h", "LICENSE", "AUTHORS", "PKG-INFO", "flash_attn/x.py",
                 "csrc/cutlass/include/cutlass/cutlass.h"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("/****\n * Some licence\n ****/\n")
    for prefix in make_pack.PASSES.values():
        for rest in ("64_bf16", "64_bf16_causal", "64_fp16", "64_fp16_causal"):
            (tree / sources.KERNELS / f"{prefix}_hdim{rest}_sm80.cu").touch()
    monkeypatch.setattr(sources, "TREE_SHA256", sources.digest(tree))
    return tmp_path


def run(monkeypatch, folder, *arguments):
    """The path of the pack, and which files were compiled."""
    (folder / "calls").write_text("")
    monkeypatch.setattr(sys, "argv", [
        "make_pack.py", "--nvcc", str(folder / "nvcc"), "--sources", str(folder / "a tree"),
        "--work", str(folder / "work"), "--output", str(folder / "out"), *arguments])
    (folder / "work").mkdir(exist_ok=True)
    path, _ = make_pack.make(make_pack.arguments())
    return path, sorted((folder / "calls").read_text().split())


SPLIT = ("--head-dim", "64", "--pass", "split")


def test_a_part_has_its_kernels_and_says_so_in_its_name(folder, monkeypatch):
    path, compiled = run(monkeypatch, folder, *SPLIT, "--dtype", "bf16")
    assert path.name == "flash-attn-2.8.3.post2-hd64-bf16-split.kernels"
    assert compiled == ["flash_fwd_split_hdim64_bf16_causal_sm80",
                        "flash_fwd_split_hdim64_bf16_sm80", "members", "small"]
    pack = Pack(path)
    assert {name.split()[0] for name in pack.kernels} == {
        "af_clear", "af_fill", "af_sum_groups_bf16", "af_sum_groups_fp16",
        "flash_fwd_splitkv_kernel", "flash_fwd_splitkv_combine_kernel"}
    assert pack.licence().count("Some licence") == 2
    (made,), = pack.rows["made"]
    assert made.startswith("nvcc 13.0.88 -ptx -arch=compute_80 -O3 ")
    assert made.rstrip().endswith(f"sdist sha256 {sources.SDIST_SHA256}")
    assert str(folder) not in made


def test_a_second_run_compiles_only_what_is_missing_and_writes_the_same(folder, monkeypatch):
    path, _ = run(monkeypatch, folder, *SPLIT, "--dtype", "bf16")
    first = path.read_bytes()
    path, compiled = run(monkeypatch, folder, *SPLIT, "--dtype", "bf16")
    assert compiled == [] and path.read_bytes() == first
    path, compiled = run(monkeypatch, folder, *SPLIT)
    assert path.name == "flash-attn-2.8.3.post2-hd64-split.kernels"
    assert len(compiled) == 2 and all("fp16" in name for name in compiled)


def test_a_failed_run_goes_on_where_it_stopped(folder, monkeypatch):
    (folder / "broken").touch()
    with pytest.raises(SystemExit, match="the same command goes on where it stopped"):
        run(monkeypatch, folder, *SPLIT)
    (folder / "broken").unlink()
    _, compiled = run(monkeypatch, folder, *SPLIT)
    assert "small" not in compiled and len(compiled) == 4


def test_the_folder_of_the_build_is_not_in_the_pack(folder, monkeypatch):
    path, _ = run(monkeypatch, folder, *SPLIT)
    first = path.read_bytes()
    path, _ = run(monkeypatch, folder, *SPLIT, "--work", str(folder / "other"))
    assert path.read_bytes() == first


def test_changed_sources_are_refused(folder, monkeypatch):
    (folder / "a tree" / sources.KERNELS / "x.h").write_text("changed")
    with pytest.raises(SystemExit, match="are not those of flash-attn"):
        run(monkeypatch, folder, *SPLIT)


def test_a_folder_without_sources_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="has no LICENSE; is it the sdist of flash-attn"):
        sources.check(tmp_path)


@pytest.mark.parametrize("arguments, said", [
    (("--head-dim", "64,65"), "'65' is none of 32, 64, 96, 128, 192, 256"),
    (("--dtype", "f16"), "'f16' is none of bf16, fp16"),
    (("--pass", ""), "'' is none of forward, split, backward"),
])
def test_unknown_parts_are_refused(arguments, said):
    done = subprocess.run([sys.executable, KERNELS / "make_pack.py", *arguments], text=True,
                          capture_output=True)
    assert done.returncode == 2 and said in done.stderr


def test_missing_programs_are_named(tmp_path):
    done = subprocess.run([sys.executable, KERNELS / "make_pack.py"], text=True,
                          capture_output=True, env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr == ("error: programs are missing; install ninja-build zstd binutils"
                           " g++\n")


def test_everything_is_72_files(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_pack.py"])
    given = make_pack.arguments()
    names = [name for group in make_pack.groups(given) for name in group]
    assert len(names) == len(set(names)) == 72
    assert make_pack.file_name(given) == "flash-attn-2.8.3.post2.kernels"


def test_the_layout_of_the_parameters_is_read_from_ptx(recorded):
    structs, members = make_pack.layout(recorded["members"])
    assert structs == [("forward", 464), ("backward", 640)]
    assert members[:2] == [("q_ptr", 0, 8), ("k_ptr", 8, 8)]
    assert ("h", 96, 4) in members and ("o_ptr", 112, 8) in members
    # In their order, without overlap, and within the struct.
    ends = [offset + size for _, offset, size in members]
    starts = [offset for _, offset, _ in members]
    assert all(end <= start for end, start in zip(ends, [*starts[1:], 640]))


def test_the_layout_has_every_member_that_the_launches_are_compared_by(recorded):
    text = (ROOT / "tests" / "launches" / "record.cpp").read_text()
    wanted = re.findall(r"\bMEMBER\((\w+)\)", text.partition("#define MEMBER(name)")[2])
    assert wanted == [name for name, _, _ in make_pack.layout(recorded["members"])[1]]
    assert wanted == re.findall(r"\bMEMBER\((\w+)\)",
                                (KERNELS / "members.cu").read_text().partition("// clang")[2])
