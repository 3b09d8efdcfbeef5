"""A GPU that is newer than every torch that the program knows."""
import json


def plan_json(anyflash, *words):
    return json.loads(anyflash("plan", "--json", *words).out)


def test_no_torch_is_taken_to_know_a_gpu_that_is_newer_than_all(anyflash):
    """A GPU that no known torch has code for: nothing promises that it computes there."""
    words = ["-g", "os=linux", "-g", "arch=x86_64", "-g", "python=3.12", "-g", "glibc=2.39"]
    plan = plan_json(anyflash, *words, "--arch", "13.0", "-g", "torch=2.9.1+cu128")
    rungs = {rung["name"]: rung for rung in plan["rungs"]}
    assert rungs["engine"]["verdict"] == "unknown", rungs["engine"]
    assert "no-torch-for-gpu" in [reason["id"] for reason in rungs["engine"]["reasons"]]
    assert not any(rung["verdict"] == "yes" for rung in rungs.values())
    # Whoever built it: CUDA 12.1 has no code for SM 12.0.
    plan = plan_json(anyflash, *words, "-g", "sm=12.0", "-g", "torch=2.15.0+cu121")
    rungs = {rung["name"]: rung for rung in plan["rungs"]}
    assert rungs["torch-kernels"]["verdict"] == "no"


def test_the_build_for_every_gpu_asks_for_no_target_of_flash_attn(anyflash, tmp_path):
    """PTX needs none; flash-attn's own build does."""
    answer = anyflash("build", "--arch", "13.0", "--dry-run", "--head-dim", "64")
    assert "--arch" not in answer.err, answer
    answer = anyflash("build", "--check", "--arch", "13.0")
    assert answer.code == 2 and "for which flash-attn 2 has code" in answer.err, answer
