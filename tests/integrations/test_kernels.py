"""Hugging Face's kernels loads the folder that `python -m anyflash.hf_kernels` writes."""

import os
import pathlib
import subprocess
import sys

import kernels
import pytest
import torch

import anyflash.hf_kernels

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    anyflash.hf_kernels.write(tmp_path)
    return tmp_path


def child(code, **environment):
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_command_writes_the_folder(tmp_path):
    command = [sys.executable, "-m", "anyflash.hf_kernels", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    written = tmp_path / "build" / "torch-universal"
    assert answer.stdout.strip() == str(written)
    assert sorted(x.name for x in written.iterdir()) == ["__init__.py", "metadata.json"]


def test_get_local_kernel_computes(folder):
    kernel = kernels.get_local_kernel(folder)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 8, 2, 16) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True
    )
    found = kernel.flash_attn_func(q, k, v, causal=True)
    assert (found.transpose(1, 2) - expected).abs().max() < 1e-5


def test_get_kernel_by_name(folder):
    code = (
        "import kernels; k = kernels.get_kernel('acme/attention', version=1); "
        "print(k.flash_attn_varlen_func.__name__)"
    )
    answer = child(code, LOCAL_KERNELS=f"acme/attention={folder}", HF_HUB_OFFLINE="1")
    assert answer.strip().endswith("flash_attn_varlen_func")


#: transformers 5.23 wants a newer kernels than PyPI has, so the test claims to have it.
THROUGH_TRANSFORMERS = """
import transformers.utils.import_utils as utils
utils.is_kernels_available = lambda *a, **k: True
import torch, tiny, transformers
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
for name in tiny.DECODERS:
    model, ids, mask = tiny.decoder(name), tiny.tokens(), tiny.padding()
    model._compatible_flash_implementations = None
    found = []
    for chosen in ("eager", "acme/attention"):
        model.set_attn_implementation(chosen, allow_all_kernels=True)
        options = dict(attention_mask=mask, max_new_tokens=8, do_sample=False)
        found.append(model.generate(ids, **options))
    assert torch.equal(*found), name
print("same tokens")
"""


def test_transformers_takes_it_by_name_on_the_cpu(folder):
    answer = child(
        THROUGH_TRANSFORMERS, LOCAL_KERNELS=f"acme/attention={folder}", HF_HUB_OFFLINE="1"
    )
    assert "same tokens" in answer
