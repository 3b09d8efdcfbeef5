"""Shared by the tests of the shim's modules: adds its tree to sys.path and compares
results."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "anyflash" / "shim" / "tree"))


def gradients(function, *inputs):
    """The output and the gradients of a fixed weighted sum of it."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    out = function(*inputs)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), inputs)]


def assert_same(got, want, bound=1e-5):
    for index, (a, b) in enumerate(zip(got, want)):
        assert a.shape == b.shape and a.dtype == b.dtype
        worst = (a - b).abs().max().item() if a.numel() else 0.0
        assert worst <= bound * max(1.0, b.abs().max().item()), (index, worst)
