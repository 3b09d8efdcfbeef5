#!/usr/bin/env python3
"""Uses an installed wheel of `anyflash build` as torch does, without a GPU.

    CUDA_VISIBLE_DEVICES= python use_wheel.py HEAD_SIZE

Kernels cannot run: "starts a kernel" means that CUDA answered that there is no device. Tensors
are on the CPU, because torch asks for the device of a tensor of a GPU even if it is fake.
Prints the versions; raises if something is not as with flash-attn's own extension.
"""

import sys

import flash_attn
import flash_attn_2_cuda
import torch
from flash_attn import flash_attn_interface
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode

HEAD_SIZE = int(sys.argv[1])


def tensors(*shape):
    return [torch.zeros(shape, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"]


def start_kernel(function, *arguments):
    """Calls the function, which must start a kernel."""
    try:
        function(*arguments)
    except RuntimeError as error:
        assert str(error).startswith("CUDA: "), error
    else:
        raise AssertionError("no kernel was started")


def use_shapes():
    """Results of fake tensors have the shapes of real ones."""
    with FakeTensorMode():
        q, k, v = tensors(2, 16, 4, HEAD_SIZE)
        assert flash_attn.flash_attn_func(q, k, v, causal=True).shape == q.shape
        q, k, v = tensors(20, 4, HEAD_SIZE)
        ends = torch.empty(3, dtype=torch.int32)
        assert flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, 12, 12).shape == q.shape


def use_autograd():
    with FakeTensorMode():
        q, k, v = tensors(2, 16, 4, HEAD_SIZE)
        flash_attn.flash_attn_func(q, k, v).sum().backward()
        assert q.grad.shape == q.shape and v.grad.dtype == v.dtype


def use_compiler():
    """torch.compile makes one graph, with flash-attn's operator."""
    graphs = []

    def keep(graph, _inputs):
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return graph.forward

    compiled = torch.compile(lambda *all: flash_attn.flash_attn_func(*all) * 2,
                             backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    start_kernel(compiled, *tensors(2, 16, 4, HEAD_SIZE))
    assert "flash_attn._flash_attn_forward.default" in graphs[0], graphs


def main():
    for direction in ("forward", "backward"):
        operator = getattr(flash_attn_interface, f"_flash_attn_{direction}")
        operator.register_kernel("cpu")(operator._init_fn)
    flash_attn_2_cuda._ON_CPU = True
    start_kernel(flash_attn.flash_attn_func, *tensors(2, 16, 4, HEAD_SIZE))
    use_shapes()
    use_autograd()
    use_compiler()
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}:",
          "operators, fake tensors, autograd, torch.compile")


if __name__ == "__main__":
    main()
