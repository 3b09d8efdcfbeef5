"""Activations of MLPs. Plain torch, differentiable.

    hidden = swiglu(gate, x)
"""

import torch.nn.functional as F

from flash_attn import _left_out


def swiglu(x, y):
    """silu(x) * y, in float32 inside, in the type of x."""
    return (F.silu(x.float()) * y.float()).to(x.dtype)


def sqrelu_fwd(x):
    """relu(x) ** 2, in float32 inside, in the type of x."""
    return F.relu(x.float()).square().to(x.dtype)


__getattr__ = _left_out.names(
    __name__,
    *("bias_gelu", "bias_gelu_back", "bias_gelu_impl", "fast_gelu_impl", "gelu_bwd"),
    *("gelu_fwd", "relu_bwd", "sqrelu_bwd", "swiglu_bwd", "swiglu_fwd"),
)
