"""flash_attn's functions, the providers and the shim where there is no library: as from the
wheel that packaging/python_wheel.py builds, in a process without $ANYFLASH_LIBRARY.
"""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "python"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder for PYTHONPATH with the contents of the wheel."""
    sys.path.insert(0, str(ROOT / "packaging"))
    import wheel_file

    folder = tmp_path_factory.mktemp("any")
    make = ["/usr/bin/python3", "-B", ROOT / "packaging" / "python_wheel.py", folder]
    wheel = subprocess.run(make, text=True, capture_output=True, check=True).stdout.strip()
    assert not [name for name in wheel_file.read(wheel) if name.endswith((".so", ".dll"))]
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "site")
    return folder / "site"


def run(package, code):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANYFLASH")}
    environment["PYTHONPATH"] = os.pathsep.join([str(package), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, text=True, capture_output=True, timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PROBLEMS = """
import torch, anyflash
from anyflash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

def compare(found, wanted):
    assert found.shape == wanted.shape
    assert (found.double() - wanted.double()).abs().max() < 1e-4

torch.manual_seed(1)
q = torch.randn(2, 9, 4, 32, requires_grad=True)
k, v = torch.randn(2, 2, 11, 2, 32).unbind()
for options in ({}, {"causal": True}, {"causal": True, "window_size": (3, 0)},
                {"softcap": 5.0}, {"alibi_slopes": torch.rand(4)}):
    before = anyflash.providers.force("plain")
    wanted = flash_attn_func(q, k, v, **options)
    gradient = torch.autograd.grad(wanted.square().sum(), q)[0]
    anyflash.providers.force(before)
    found = flash_attn_func(q, k, v, **options)
    compare(found, wanted)
    compare(torch.autograd.grad(found.square().sum(), q)[0], gradient)
"""


def test_dense_packed_and_cached_attention_are_torchs(package):
    code = PROBLEMS + (
        "starts = torch.tensor([0, 4, 9], dtype=torch.int32)\n"
        "rows = [x[0].detach() for x in (q, q, q)]\n"
        "packed = flash_attn_varlen_func(*rows, starts, starts, 5, 5, causal=True)\n"
        "for begin, end in ((0, 4), (4, 9)):\n"
        "    part = [x[None, begin:end] for x in rows]\n"
        "    compare(packed[begin:end], flash_attn_func(*part, causal=True)[0])\n"
        "keys, values = torch.randn(2, 2, 16, 2, 32).unbind()\n"
        "keys[:, :11], values[:, :11] = k, v\n"
        "lengths = torch.tensor([11, 11], dtype=torch.int32)\n"
        "cached = flash_attn_with_kvcache(q.detach(), keys, values, cache_seqlens=lengths)\n"
        "compare(cached, flash_attn_func(q.detach(), k, v))\n"
        "print(anyflash.explain(q, k, v).provider)"
    )
    assert run(package, "import anyflash.providers\n" + code) == "sdpa\n"


def test_the_engine_declines_and_says_why(package):
    code = (
        "import torch, anyflash\n"
        "q = torch.randn(1, 4, 2, 32)\n"
        "print(dict(anyflash.explain(q, q, q).declined)['engine'])\n"
        "import anyflash.torch\n"
        "for call in (anyflash.torch.enable, lambda: anyflash.attend(q, q, q),\n"
        "             lambda: torch.ops.anyflash.attend(q, q, q)):\n"
        "    try:\n"
        "        call()\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
        "print(anyflash.torch.is_enabled())\n"
        "torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    )
    *lines, enabled = run(package, code).splitlines()
    assert len(lines) == 4 and all("needs the library libanyflash.so" in line for line in lines)
    assert enabled == "False"


def test_the_shim_computes_too(package, tmp_path):
    code = (
        "import pathlib, sys\n"
        f"site = pathlib.Path({str(tmp_path)!r})\n"
        "from anyflash.shim import _files\n"
        "_files.install(site)\n"
        "sys.path.insert(0, str(site))\n"
        "import torch, flash_attn\n"
        "q = torch.randn(1, 5, 2, 32)\n"
        "print(tuple(flash_attn.flash_attn_func(q, q, q, causal=True).shape))"
    )
    assert run(package, code) == "(1, 5, 2, 32)\n"
