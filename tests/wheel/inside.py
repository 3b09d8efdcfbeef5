"""Run by try_wheel.py with the Python of an environment that has the wheel: tests that it works
there.

Arguments: other packages in the environment ("numpy", "torch"). Prints one line.
"""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

TIMED = (
    "import sys, time; start = time.process_time(); import anyflash; "
    "took = time.process_time() - start; "
    "print(took * 1e3, [name for name in ('torch', 'numpy') if name in sys.modules])"
)


def import_ms():
    """Processor time, the best of ten, so that other work on the machine does not count."""
    best = float("inf")
    for _ in range(10):
        out = subprocess.run(
            [sys.executable, "-c", TIMED], check=True, capture_output=True, text=True
        ).stdout
        took, others = out.split(" ", 1)
        assert others.strip() == "[]", f"import anyflash imported {others}"
        best = min(best, float(took))
    return best


def check_files():
    import anyflash

    files = {str(path) for path in importlib.metadata.files("anyflash")}
    folder = pathlib.Path(anyflash.__file__).parent
    for name in ("libanyflash.so", "libanyflash_python.so", "bin/anyflash", "py.typed"):
        assert (folder / name).is_file() and f"anyflash/{name}" in files, name
    assert any(name.endswith("licenses/LICENSE") for name in files)
    assert sum("licenses/licenses/" in name for name in files) >= 6
    assert anyflash.__version__ == importlib.metadata.version("anyflash")


def check_program():
    """Checks that the console script and `python -m anyflash` start the program."""
    script = os.path.join(sysconfig.get_path("scripts"), "anyflash")
    assert shutil.which(script), script
    for command in ([script], [sys.executable, "-m", "anyflash"]):
        out = subprocess.run(
            [*command, "--version"], check=True, capture_output=True, text=True
        ).stdout
        assert out.startswith("anyflash "), out
        out = subprocess.run([*command, "plan", "--json"], capture_output=True, text=True)
        assert out.returncode in (0, 1), out.stderr
        json.loads(out.stdout)
    bench = [script, "bench", "--quick", "--filter", "forward f32 S512", "--json"]
    out = subprocess.run(bench, check=True, capture_output=True, text=True)
    assert json.loads(out.stdout)["results"], out.stdout


def check_numpy():
    import numpy

    import anyflash

    rng = numpy.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 9, 4, 32)).astype(numpy.float32) for _ in range(3))
    got = anyflash.attend(q, k, v)
    scores = numpy.einsum("bihd,bjhd->bhij", q, k) / numpy.sqrt(32)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    want = numpy.einsum("bhij,bjhd->bihd", weights, v)
    assert abs(got - want).max() < 1e-5


def check_torch():
    import torch

    from anyflash.flash_attn import flash_attn_func

    q, k, v = (torch.randn(2, 9, 4, 32, requires_grad=True) for _ in range(3))
    got = flash_attn_func(q, k, v, causal=True)
    want = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True
    ).transpose(1, 2)
    assert (got - want).abs().max() < 1e-5
    got_gradient = torch.autograd.grad(got.square().sum(), q)[0]
    want_gradient = torch.autograd.grad(want.square().sum(), q)[0]
    assert (got_gradient - want_gradient).abs().max() < 1e-4


def main():
    others = sys.argv[1:]
    check_files()
    check_program()
    took = import_ms()
    for name in ("numpy", "torch"):
        assert (importlib.util.find_spec(name) is not None) == (name in others), name
    if "numpy" in others:
        check_numpy()
    if "torch" in others:
        check_torch()
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"python {version} with {' '.join(others) or 'nothing else'}: import {took:.1f} ms")


if __name__ == "__main__":
    main()
