"""RMS norm, alone and after dropout and addition: ops/layer_norm.py without the mean.

    y = RMSNorm(512)(x)
"""

import torch

from flash_attn import _left_out
from flash_attn.ops.layer_norm import DropoutAddNorm, dropout_add_norm
from flash_attn.ops.triton.layer_norm import rms_norm_fn


def rms_norm(x, weight, epsilon):
    """The RMS norm of x, in x's type."""
    return rms_norm_fn(x, weight, None, eps=epsilon)


def dropout_add_rms_norm(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    rowscale=None,
    layerscale=None,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """dropout_add_layer_norm() with an RMS norm."""
    summands = (x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale)
    return dropout_add_norm(*summands, prenorm, residual_in_fp32, return_dropout_mask, True)


class RMSNorm(torch.nn.Module):
    """rms_norm() with its weight."""

    def __init__(self, hidden_size, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        weight = torch.empty(hidden_size, device=device, dtype=dtype)
        self.weight = torch.nn.Parameter(weight)
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        self.weight.data.fill_(1.0)

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class DropoutAddRMSNorm(DropoutAddNorm):
    """dropout_add_rms_norm() with its weight."""


__getattr__ = _left_out.names(
    __name__, "dropout_add_rms_norm_subset", "dropout_add_rms_norm_parallel_residual"
)
