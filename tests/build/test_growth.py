"""What a build compiles, and what a later build need not compile again."""

import json
import shutil
import zipfile

import pytest

import synthetic

pytestmark = pytest.mark.skipif(shutil.which("ninja") is None,
                                reason="needs ninja: package ninja-build")

GENERATED = "cache/build/*/flash-attn/csrc/flash_attn/generated"


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
    assert compiled == [
        "flash_api.cpp",
        *(f"flash_{kind}_hdim128_bf16_both_sm80.cu" for kind in ("bwd", "fwd", "fwd_split")),
        "kernels_left_out.cpp",
    ]
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
    assert len(compiled) == 8 and not [name for name in compiled if "_both_" in name]


@pytest.mark.parametrize("features, new", [("none", 3), ("all", 5)])
def test_a_head_size_more_compiles_only_its_files(world, features, new):
    build(world, "128", features, "--jobs", "2")
    compiled = build(world, "64,128", features, "--jobs", "2")
    stubs = [name for name in compiled if name == "kernels_left_out.cpp"]
    assert len(stubs) == 1 and len(compiled) == new + 1, compiled
    assert all("hdim64" in name for name in compiled if name not in stubs), compiled


def test_backward_more_compiles_only_its_files(world):
    build(world, "128", "none", "--jobs", "2", "--inference")
    compiled = build(world, "128", "none", "--jobs", "2")
    assert compiled == ["flash_bwd_hdim128_bf16_both_sm80.cu", "kernels_left_out.cpp"]


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
    assert (first["files"], first["compiled"]) == (5, 0)
    build(world, "128", "none", "--jobs", "2")
    more = estimate("64,128")
    assert (more["files"], more["compiled"]) == (8, 5)
    assert 0 < more["cpu_seconds"] < first["cpu_seconds"]


def test_the_answer_in_json_names_the_wheel(world):
    code, out, err, _ = world.build("--head-dim", "128", "--dtype", "bf16", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["wheel"].endswith(".whl") and answer["reason"] is None, err


def test_another_feature_leaves_the_objects_of_the_first(world):
    build(world, "128", "none")
    assert "flash_api.cpp" in build(world, "128", "window")  # flash_api contains the checks
    assert build(world, "128", "none") == []


def test_the_wheel_requires_its_torch_and_holds_flash_attn_alone(world):
    build(world, "128", "none")
    wheel = next(world.folder.glob("cache/build/*/wheels/*.whl"))
    assert "+cu13torch2.11cxx11abitrue.slim.sm90.hd128.bf16.bwd-" in wheel.name
    assert "-manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("requires") == b"torch==2.11.* einops"
        assert opened.read("packages") == b"flash_attn"


def test_checks_of_features_left_out_tell_what_adds_them(world):
    build(world, "128", "window,softcap")
    unit = next(world.folder.glob(f"{GENERATED}/flash_api*"))
    text = unit.read_text()
    assert '#include "../flash_api.cpp"' in text
    assert text.count("the same anyflash build with --features") == 2
    assert "with --features window,softcap,dropout" in text
