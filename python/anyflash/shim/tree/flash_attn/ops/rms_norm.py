"""RMS norm, alone and after dropout and addition: ops/layer_norm.py without the mean.

    y = RMSNorm(512)(x)
"""

from flash_attn import _left_out
from flash_attn.ops.layer_norm import DropoutAddNorm, dropout_add_norm
from flash_attn.ops.triton import layer_norm


def rms_norm(x, weight, epsilon):
    """The RMS norm of x, in x's type."""
    return layer_norm.rms_norm_fn(x, weight, None, eps=epsilon)


def dropout_add_rms_norm(
    x0, residual, weight, bias, dropout_p, epsilon,
    rowscale=None, layerscale=None,
    prenorm=False, residual_in_fp32=False, return_dropout_mask=False,
):
    """dropout_add_layer_norm() with an RMS norm."""
    summands = (x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale)
    return dropout_add_norm(*summands, prenorm, residual_in_fp32, return_dropout_mask, True)


class RMSNorm(layer_norm.RMSNorm):
    """rms_norm() with its weight."""

    def __init__(self, hidden_size, eps=1e-5, device=None, dtype=None):
        super().__init__(hidden_size, eps, device=device, dtype=dtype)

    def forward(self, x):
        return super().forward(x)


class DropoutAddRMSNorm(DropoutAddNorm):
    """dropout_add_rms_norm() with its weight."""


__getattr__ = _left_out.names(
    __name__, "dropout_add_rms_norm_subset", "dropout_add_rms_norm_parallel_residual"
)
