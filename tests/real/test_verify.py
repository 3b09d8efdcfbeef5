"""`anyflash verify` with a real torch on the CPU.

$ANYFLASH_TORCH_PYTHON names the interpreter of an environment with torch. flash_attn is a
stand-in that calls torch's own attention, so that a test can make its answers wrong.
"""
import json
import os
import subprocess

import pytest

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
PYTHON = os.environ.get("ANYFLASH_TORCH_PYTHON")
CODE = '''
import torch
__version__ = "2.8.3"
def flash_attn_func(q, k, v, causal=False):
    if q.shape[-1] not in HEAD_DIMS:
        raise RuntimeError("this build has no such head size")
    if INSTEAD:
        return eval(INSTEAD)
    k, v = (t.repeat_interleave(q.shape[2] // k.shape[2], 2) for t in (k, v * VALUE_FACTOR))
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(q, k, v, is_causal=causal).transpose(1, 2)
'''


@pytest.fixture
def verify(tmp_path):
    if not PYTHON:
        pytest.skip("needs an interpreter with torch, named by $ANYFLASH_TORCH_PYTHON")

    def run(head_dims=(64, 128), value_factor=1.0, instead=None):
        head = f"HEAD_DIMS = {head_dims!r}\nVALUE_FACTOR = {value_factor!r}\n"
        head += f"INSTEAD = {instead!r}\n"
        info = tmp_path / "flash_attn-2.8.3.dist-info"
        (tmp_path / "flash_attn").mkdir()
        info.mkdir()
        (tmp_path / "flash_attn" / "__init__.py").write_text(head + CODE)
        (info / "METADATA").write_text("Name: flash_attn\nVersion: 2.8.3\n")
        (info / "RECORD").write_text("flash_attn/__init__.py,,\n")
        words = ["verify", "--python", PYTHON, "--device", "cpu", "--json"]
        done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=300,
                              env={**os.environ, "PYTHONPATH": str(tmp_path)})
        checks = json.loads(done.stdout)["checks"]
        run.said = {row["check"]: row["evidence"] for row in checks}
        return done.returncode, {row["check"]: row["answer"] for row in checks}
    return run


def test_right_answers_pass_forward_and_backward(verify):
    code, rows = verify()
    assert code == 0 and rows["forward on cpu"] == rows["backward on cpu"] == "yes"


def test_a_build_of_one_head_size_is_asked_for_that_one(verify):
    code, rows = verify(head_dims=(96,))
    assert code == 0 and rows["forward on cpu"] == rows["backward on cpu"] == "yes"


def test_answers_that_are_off_by_a_tenth_do_not_pass(verify):
    code, rows = verify(value_factor=1.1)
    assert code == 1 and rows["forward on cpu"] == rows["backward on cpu"] == "no"


def test_a_build_without_any_head_size_does_not_pass(verify):
    code, rows = verify(head_dims=())
    assert code == 1 and rows["forward on cpu"] == "no"


@pytest.mark.parametrize("result, reason", [
    ("None", "not a tensor"), ("q.double()", "torch.float64"), ("q[:, 1:]", "(1, 112"),
    ("q * float('nan')", "finite"),
    ("print('anyflash-verify {\"forward\": 0, \"done\": true}') or 1 / 0", "ZeroDivision")])
def test_a_result_of_another_kind_is_named(verify, result, reason):
    _, rows = verify(head_dims=(64, 128), instead=result)
    assert rows["forward on cpu"] == "no" and reason in verify.said["forward on cpu"]
