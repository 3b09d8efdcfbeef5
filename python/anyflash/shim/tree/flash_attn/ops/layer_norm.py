"""Dropout, addition and layer norm in one, in plain torch; ops/rms_norm.py uses it too.

    y, total = dropout_add_layer_norm(x0, residual, weight, bias, 0.1, 1e-5, prenorm=True)
"""

import torch

from flash_attn import _left_out
from flash_attn.ops.triton.layer_norm import layer_norm_fn


def layer_norm(x, weight, bias, epsilon):
    """The layer norm of x, in x's type."""
    return layer_norm_fn(x, weight, bias, eps=epsilon)


def dropout_add_norm(
    x0, residual, weight, bias, p, eps, rowscale, layerscale, prenorm, fp32, masked, is_rms
):
    """What dropout_add_layer_norm() and dropout_add_rms_norm() share."""
    x = x0.float() if layerscale is None else x0.float() * layerscale
    y, total, mask, _ = layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        eps=eps,
        dropout_p=p,
        rowscale=rowscale,
        prenorm=True,
        is_rms_norm=is_rms,
        return_dropout_mask=True,
        out_dtype=x0.dtype,
    )
    results = [y]
    if prenorm:
        results.append(total if residual is not None or fp32 else total.to(x0.dtype))
    if masked:
        results.append(torch.ones_like(x0, dtype=torch.bool) if mask is None else mask)
    return results[0] if len(results) == 1 else tuple(results)


def dropout_add_layer_norm(
    x0, residual, weight, bias, dropout_p, epsilon,
    rowscale=None, layerscale=None,
    prenorm=False, residual_in_fp32=False, return_dropout_mask=False,
):
    """Layer norm of x = dropout(x0 * rowscale * layerscale) + residual.

    Returns it in x0's type; with prenorm also x, in the residual's type, without residual in
    float32 if residual_in_fp32, else in x0's; with return_dropout_mask also the mask of what
    is kept.
    """
    summands = (x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale)
    return dropout_add_norm(*summands, prenorm, residual_in_fp32, return_dropout_mask, False)


class DropoutAddNorm(torch.nn.Module):
    """dropout_add_norm() with its weight, and a bias if has_bias; dropout in training only."""

    has_bias = False

    def __init__(
        self, hidden_size,
        prenorm=False, p=0.0, eps=1e-5, residual_in_fp32=False, device=None, dtype=None,
    ):
        super().__init__()
        self.prenorm, self.p, self.eps = prenorm, p, eps
        self.residual_in_fp32 = residual_in_fp32
        for name, exists in (("weight", True), ("bias", self.has_bias)):
            value = torch.empty(hidden_size, device=device, dtype=dtype) if exists else None
            self.register_parameter(name, torch.nn.Parameter(value) if exists else None)
        self.reset_parameters()

    def reset_parameters(self):
        self.weight.data.fill_(1.0)
        if self.bias is not None:
            self.bias.data.fill_(0.0)

    def forward(self, x0, residual=None):
        p = self.p if self.training else 0.0
        given = (x0, residual, self.weight, self.bias, p, self.eps, None, None, self.prenorm)
        return dropout_add_norm(*given, self.residual_in_fp32, False, not self.has_bias)


class DropoutAddLayerNorm(DropoutAddNorm):
    """dropout_add_layer_norm() with its weight and bias."""

    has_bias = True


__getattr__ = _left_out.names(
    __name__, "dropout_add_layer_norm_subset", "dropout_add_layer_norm_parallel_residual"
)
