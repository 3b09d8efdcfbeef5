"""packaging/flash_attn_wheel.py: the wheel's flash_attn, in a process of its own, asks the
stand-in for NVIDIA's driver for the kernels of an attention call and its gradients."""

import pathlib
import subprocess
import sys
import zipfile

import pytest

import stub_pack
from test_launches import FOLDER

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(FOLDER, "flash_attn_2_cuda", "libanyflash_cuda.so").absolute()
DRIVER = LIBRARY.with_name("libcuda.so.1")
PROGRAM = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
import torch
from flash_attn import flash_attn_func, flash_attn_interface
import flash_attn_2_cuda
flash_attn_2_cuda._ON_CPU = True
for name in ("_flash_attn_forward", "_flash_attn_backward"):
    operator = getattr(flash_attn_interface, name)
    operator.register_kernel("cpu")(operator._init_fn)
q, k, v = (torch.zeros(1, 64, 2, 128, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv")
flash_attn_func(q, k, v, causal=True).sum().backward()
driver.take_launch.restype = ctypes.c_size_t
name, data = ctypes.c_char_p(), ctypes.c_void_p()
while driver.take_launch(ctypes.byref(name), ctypes.byref(data)):
    print(name.value.decode().split()[0])
"""


@pytest.fixture(scope="module", name="wheel")
def fixture_wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    stub_pack.write(folder / "pack")
    subprocess.run([sys.executable, ROOT / "packaging" / "flash_attn_wheel.py", folder / "pack",
                    LIBRARY, "manylinux_2_28_x86_64", folder], check=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "site")
    return path


def test_it_is_for_every_python_and_says_whose_it_is(wheel):
    assert wheel.name == "flash_attn-2.8.3.post2+any.ptx-py3-none-manylinux_2_28_x86_64.whl"
    metadata = (wheel.parent / "site" / "flash_attn-2.8.3.post2+any.ptx.dist-info" / "METADATA")
    text = metadata.read_text()
    for line in ("Name: flash-attn", "Version: 2.8.3.post2+any.ptx", "Requires-Dist: torch"):
        assert line in text.splitlines()
    assert "tridao" not in text.lower()
    assert "Questions about this wheel are for anyflash" in text


def test_attention_and_gradients_reach_the_driver(wheel):
    done = subprocess.run([sys.executable, "-c", PROGRAM, DRIVER], capture_output=True,
                          text=True, check=False, cwd=wheel.parent / "site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["flash_fwd_kernel", "flash_bwd_dot_do_o_kernel",
                                   "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
                                   "flash_bwd_convert_dq_kernel"]
