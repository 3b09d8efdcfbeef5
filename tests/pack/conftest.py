"""What the tests of packaging/kernels share: its modules, and recorded PTX.

split.ptx.xz is of nvcc 13.0 for flash_fwd_split_hdim64_bf16_causal_sm80.cu, cut to five kernels
and the functions that they call, whose bodies are cut; small.ptx.xz and members.ptx.xz are of
small.cu and members.cu.
"""

import lzma
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "packaging" / "kernels"
sys.path.insert(0, str(KERNELS))


def read(name):
    return lzma.decompress((HERE / f"{name}.ptx.xz").read_bytes()).decode()


@pytest.fixture(scope="session")
def recorded():
    """{name: text} of the recorded PTX."""
    return {name: read(name) for name in ("split", "small", "members")}


@pytest.fixture(scope="session")
def twins(recorded):
    """The recorded file, and what the compiler makes of its fp16 twin."""
    fp16 = recorded["split"].replace("N7cutlass10bfloat16_tE", "N7cutlass6half_tE")
    fp16 = fp16.replace(".bf16", ".f16")
    assert fp16 != recorded["split"]
    return [recorded["split"], fp16]
