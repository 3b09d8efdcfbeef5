"""FlashAttention-4: its wheel and what it needs come together, and torch stays."""
import json

import pytest

from conftest import make_wheel
from test_plan import GIVEN, fake_torch

NEEDS = {"nvidia_cutlass_dsl": "4.6.2", "quack_kernels": "0.5.3", "apache_tvm_ffi": "0.1.12",
         "torch_c_dlpack_ext": "0.1.5", "typing_extensions": "4.16.0"}
WORDS = ("--package", "flash_attn_4", *GIVEN)


@pytest.fixture
def shop(place, tmp_path):
    """An environment with torch and einops, and a folder with the other wheels."""
    fake_torch(place)
    place.folder = tmp_path / "wheels"
    wheel = make_wheel(place.folder, name="flash_attn_4", version="4.0.0b28",
                       module="flash_attn/cute", files={
        "flash_attn/cute/__init__.py": b"from quack_kernels import __version__\n"
                                       b"def flash_attn_func(q, k, v): pass\n"})
    for name, version in NEEDS.items():
        requires = ("torch", "cuda-pathfinder") if name == "quack_kernels" else ()
        make_wheel(place.folder, name=name, version=version, requires=requires)
    make_wheel(place.folder, name="cuda_pathfinder", version="1.9.0", requires=())
    make_wheel(place.folder, name="torch", version="2.9.0", requires=())  # newer, stays out
    place.catalog = tmp_path / "catalog.jsonl"
    place.catalog.write_text("\n".join(json.dumps(row) for row in [
        {"catalog_date": "2026-08-22"},
        {"source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn_4",
         "version": "4.0.0b28", "release_tag": "fa4-v4.0.0.beta28", "filename": wheel.name,
         "url": f"https://example.invalid/{wheel.name}", "python": "py3", "abi": "none",
         "platform": "any", "evidence": "listed"}]) + "\n")
    return place


def tree(place):
    """Without the lock file that uv leaves behind when it says what it would bring."""
    return {path: facts for path, facts in place.tree().items() if path != ".lock"}


def test_everything_comes_at_once_and_goes_again(shop):
    before = tree(shop)
    done = shop.run("install", *WORDS, "--catalog", shop.catalog, "--from", shop.folder)
    assert done.returncode == 0, done.all
    listed = shop.python("import importlib.metadata as m; print(sorted("
                         "d.metadata['Name'] + '==' + d.version for d in m.distributions()))")
    for name, version in {**NEEDS, "cuda_pathfinder": "1.9.0", "torch": "2.8.0"}.items():
        assert f"'{name}=={version}'" in listed.stdout, listed.stdout
    assert shop.run("undo").returncode == 0
    assert tree(shop) == before


def test_a_need_that_excludes_the_torch_here_changes_nothing(shop):
    make_wheel(shop.folder, name="quack_kernels", version="0.5.4", requires=("torch>=2.9",))
    (shop.folder / "quack_kernels-0.5.3-py3-none-any.whl").unlink()
    before = tree(shop)
    done = shop.run("install", *WORDS, "--catalog", shop.catalog, "--from", shop.folder)
    assert done.returncode != 0, done.all
    assert tree(shop) == before


def test_plan_prints_what_install_does(shop):
    plan = json.loads(shop.run("plan", *WORDS, "--catalog", shop.catalog, "--json").stdout)
    kinds = [step["kind"] for step in plan["steps"]]
    assert kinds == ["wheel", "needs", "try", "advice"]
    assert plan["steps"][1]["requirements"][-1] == "torch==2.8.0"
    done = shop.run("install", *WORDS, "--catalog", shop.catalog, "--from", shop.folder,
                    "--json")
    assert json.loads(done.stdout)["steps"] == plan["steps"]
