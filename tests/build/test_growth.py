"""What a build compiles, and what a later build need not compile again."""

import base64
import csv
import email
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import zipfile

import pytest

import synthetic
from synthetic import GLUE

GENERATED = "cache/build/*/generated"


@pytest.fixture
def world(tmp_path):
    return synthetic.World(tmp_path)


def build(world, head_dims, features, *options):
    code, out, err, compiled = world.build("--head-dim", head_dims, "--dtype", "bf16",
                                           "--features", features, *options)
    assert code == 0, out + err
    return sorted(compiled)


def test_few_kernels_are_compiled_in_pairs(world):
    compiled = build(world, "128", "none", "--jobs", "2")
    assert compiled == sorted([
        *GLUE,
        *(f"flash_{kind}_hdim128_bf16_both_sm80.cu" for kind in ("bwd", "fwd", "fwd_split")),
    ])
    unit = next(world.folder.glob(f"{GENERATED}/*bwd*both*"))
    assert unit.read_text() == (
        '#include "flash_bwd_hdim128_bf16_sm80.cu"\n'
        '#include "flash_bwd_hdim128_bf16_causal_sm80.cu"\n'
    )


def settled(world, arch):
    """The launcher that a build for this GPU compiles."""
    build(world, "128", "none", "--arch", arch)
    paths = list(world.folder.glob(f"{GENERATED}/flash_bwd_launch_template.h"))
    newest = max(paths, key=lambda path: path.stat().st_mtime_ns)
    return newest.read_text().splitlines()[1:]


@pytest.mark.parametrize("arch, is_sm8x, block, processor", [
    ("89", "true", 101376, 102400), ("90", "false", 232448, 233472),
    ("12.0", "false", 101376, 102400), ("90,100", "false", 232448, 233472)])
def test_what_every_gpu_answers_alike_is_settled(world, arch, is_sm8x, block, processor):
    lines = synthetic.LAUNCHER.splitlines()[1:]
    assert settled(world, arch) == [
        lines[0], lines[1], f"if constexpr ({is_sm8x}) {{", lines[3],
        lines[4].replace("if (max_smem_per_block", f"if constexpr ({block}"),
        lines[5].replace("if (max_smem_per_block", f"if constexpr ({block}"),
        lines[6].replace("if (max_smem_per_block", f"if constexpr ({block}")
                .replace("max_smem_per_sm", str(processor)),
    ]


def test_what_gpus_answer_differently_stays_asked(world):
    lines = synthetic.LAUNCHER.splitlines()[1:]
    assert settled(world, "80") == lines
    assert settled(world, "90,120") == [*lines[:2], "if constexpr (false) {", *lines[3:]]


@pytest.mark.parametrize("features, jobs, arch", [("all", "2", "80"), ("none", "8", "90")])
def test_many_kernels_or_many_cores_are_compiled_singly(world, features, jobs, arch):
    compiled = build(world, "128", features, "--jobs", jobs, "--arch", arch)
    assert len(compiled) == 6 + len(GLUE)
    assert not [name for name in compiled if "_both_" in name]


@pytest.mark.parametrize("features, new", [("none", 3), ("all", 5)])
def test_a_head_size_more_compiles_only_its_files(world, features, new):
    build(world, "128", features, "--jobs", "2")
    compiled = build(world, "64,128", features, "--jobs", "2")
    assert len(compiled) == new, compiled
    assert all("hdim64" in name for name in compiled), compiled


def test_backward_more_compiles_only_its_files(world):
    build(world, "128", "none", "--jobs", "2", "--inference")
    compiled = build(world, "128", "none", "--jobs", "2")
    assert compiled == ["flash_bwd_hdim128_bf16_both_sm80.cu"]


def test_the_same_again_compiles_nothing_and_says_so(world):
    build(world, "128", "none")
    code, out, _, compiled = world.build("--head-dim", "128", "--dtype", "bf16", "--features",
                                         "none")
    assert (code, compiled) == (0, [])
    assert "already compiled" in out


def test_the_estimate_is_of_what_is_left(world):
    def estimate(head_dims):
        options = ("--features", "none", "--jobs", "2", "--dry-run", "--json")
        _, out, _, compiled = world.build("--head-dim", head_dims, "--dtype", "bf16", *options)
        assert not compiled
        return json.loads(out)

    first = estimate("128")
    assert (first["files"], first["compiled"]) == (3 + len(GLUE), 0)
    build(world, "128", "none", "--jobs", "2")
    more = estimate("64,128")
    assert (more["files"], more["compiled"]) == (6 + len(GLUE), 3 + len(GLUE))
    assert 0 < more["cpu_seconds"] < first["cpu_seconds"]


def test_the_answer_in_json_names_the_wheel(world):
    code, out, err, _ = world.build("--head-dim", "128", "--dtype", "bf16", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["wheel"].endswith(".whl") and answer["reason"] is None, err


def test_another_feature_leaves_the_objects_of_the_first(world):
    build(world, "128", "none")
    assert set(GLUE) < set(build(world, "128", "window"))  # the glue contains the checks
    assert build(world, "128", "none") == []


def test_another_torch_and_python_need_no_other_build(world):
    assert build(world, "128", "none")
    venv = world.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    torch = next(venv.glob("lib/python3*")) / "site-packages" / "torch"
    synthetic.write(torch / "__init__.py", "")
    for version, cuda in (("2.11.0+cu130", "13.0"), ("2.4.0+cu121", "12.1")):
        synthetic.write(torch / "version.py", f"__version__ = '{version}'\ncuda = '{cuda}'\n")
        assert build(world, "128", "none", "--python", venv / "bin" / "python") == []


def wheel_of(world):
    wheel, = world.folder.glob("cache/build/*/wheels/*")
    return wheel


def test_the_wheel_is_for_every_python_and_holds_what_its_record_says(world):
    build(world, "128", "none")
    wheel = wheel_of(world)
    name = "flash_attn-2.8.3.post2+any.cu13.sm90.hd128.bf16.bwd"
    assert re.fullmatch(re.escape(name) + r"-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        record = opened.read(f"{name}.dist-info/RECORD").decode()
        for row in csv.reader(record.splitlines()):
            text = b"" if row[0].endswith("/RECORD") else opened.read(row[0])
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().strip("=")
            assert row[0].endswith("/RECORD") or row[1:] == [f"sha256={digest}", str(len(text))]
        assert sorted(row[0] for row in csv.reader(record.splitlines())) == sorted(names)
        assert names[-1].endswith("/RECORD")
        metadata = opened.read(f"{name}.dist-info/METADATA").decode()
        contents = json.loads(opened.read("flash_attn_2_cuda/contents.json"))
        info = opened.getinfo("flash_attn_2_cuda/libanyflash_cuda.so")
        assert stat.S_IMODE(info.external_attr >> 16) == 0o755
        assert f"Tag: {'-'.join(wheel.stem.split('-')[2:])}\n" in opened.read(
            f"{name}.dist-info/WHEEL").decode()
    assert {"flash_attn/__init__.py", "flash_attn/modules/mha.py",
            "flash_attn_2_cuda/__init__.py"} < set(names)
    assert not [each for each in names if "hopper" in each or "typed" in each]
    head, text = metadata.split("\n\n", 1)
    fields = email.message_from_string(head)
    assert (fields["Name"], fields["Version"]) == ("flash-attn", name.split("-")[1])
    assert fields.get_all("Requires-Dist") == ["torch", "einops"] and fields["Dynamic"] is None
    assert text.startswith("flash-attn 2.8.3.post2 built by anyflash ")
    assert text.endswith("# FlashAttention\n")
    assert (contents["targets"], contents["head_dims"]) == ([90], [128])
    assert (contents["dtypes"], contents["features"]) == (["bf16"], [])


def test_the_same_build_packs_the_same_bytes(world):
    build(world, "128", "none")
    first = wheel_of(world).read_bytes()
    build(world, "128", "none")
    assert wheel_of(world).read_bytes() == first


def test_pip_installs_the_wheel(world):
    build(world, "128", "none")
    target = world.folder / "installed"
    own = world.folder / "env"
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    words = [own / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps",
             "--no-index", "--target", target, wheel_of(world)]
    subprocess.run(words, check=True)
    assert (target / "flash_attn_2_cuda" / "libanyflash_cuda.so").stat().st_mode & 0o111


def test_a_library_that_needs_more_than_the_c_library_is_refused(world):
    other = os.environ["ANYFLASH"]  # it needs SQLite
    code, out, err, _ = world.build("--head-dim", "128", "--dtype", "bf16",
                                    more={"LIBRARY": other})
    assert code == 4 and "the library needs 'lib" in err, out + err
    assert not list(world.folder.glob("cache/build/*/wheels/*"))
