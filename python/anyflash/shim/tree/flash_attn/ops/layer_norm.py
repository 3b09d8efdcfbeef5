"""Dropout, addition and layer norm in one, by plain torch; ops/rms_norm.py uses it too."""

import torch
from torch.nn import init

from flash_attn.ops.triton.layer_norm import _drop, _normed


def _dropped(x0, p, *scales):
    """x0 in float32 times the scales, with dropout; and the mask of what stays."""
    x = x0.float()
    for scale in scales:
        if scale is not None:
            x = x * scale
    if p > 0.0:
        return _drop(x, p)
    return x, torch.ones_like(x0, dtype=torch.bool)


def _sum_dtype(x0, residual, residual_in_fp32):
    if residual is not None:
        return residual.dtype
    return torch.float32 if residual_in_fp32 else x0.dtype


def _added(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    rowscale,
    layerscale,
    prenorm,
    residual_in_fp32,
    return_dropout_mask,
    is_rms_norm,
):
    rowscale = None if rowscale is None else rowscale[..., None]
    x, mask = _dropped(x0, dropout_p, rowscale, layerscale)
    if residual is not None:
        x = x + residual.float()
    results = [_normed(x, weight, bias, epsilon, False, is_rms_norm, x0.dtype)]
    if prenorm:
        results.append(x.to(_sum_dtype(x0, residual, residual_in_fp32)))
    if return_dropout_mask:
        results.append(mask)
    return results[0] if len(results) == 1 else tuple(results)


def _added_subset(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    layerscale,
    x0_subset,
    out_subset,
    rowscale_const,
    out_numrows,
    prenorm,
    residual_in_fp32,
    return_dropout_mask,
    is_rms_norm,
):
    """Subsets hold row numbers from 1 on; 0: this row is not in x0, or not in the output."""
    size = x0.shape[-1]
    part, mask = _dropped(x0, dropout_p, rowscale_const, layerscale)
    if x0_subset is not None:
        rows = x0_subset.reshape(-1).long()
        part = torch.cat((part.new_zeros(1, size), part.reshape(-1, size)))[rows]
        part = part.view(*x0_subset.shape, size)
    x = part if residual is None else part + residual.float()
    z = _normed(x, weight, bias, epsilon, False, is_rms_norm, x0.dtype)
    if out_subset is not None:
        rows = out_subset.reshape(-1).long()
        kept = rows > 0
        z = z.new_zeros(out_numrows, size).index_copy(
            0, rows[kept] - 1, z.reshape(-1, size)[kept]
        )
    results = [z]
    if prenorm:
        results.append(x.to(_sum_dtype(x0, residual, residual_in_fp32)))
    if return_dropout_mask:
        results.append(mask)
    return results[0] if len(results) == 1 else tuple(results)


def _added_parallel(
    x0,
    x1,
    residual,
    weight0,
    bias0,
    weight1,
    bias1,
    dropout_p,
    epsilon,
    prenorm,
    residual_in_fp32,
    return_dropout_mask,
    is_rms_norm,
):
    x, mask0 = _dropped(x0, dropout_p)
    mask1 = None
    if x1 is not None:
        other, mask1 = _dropped(x1, dropout_p)
        x = x + other
    if residual is not None:
        x = x + residual.float()
    results = [
        _normed(x, weight, bias, epsilon, False, is_rms_norm, x0.dtype)
        for weight, bias in ((weight0, bias0), (weight1, bias1))
    ]
    if prenorm:
        results.append(x.to(_sum_dtype(x0, residual, residual_in_fp32)))
    if return_dropout_mask:
        results += [mask0, mask1]
    return tuple(results)


def layer_norm(x, weight, bias, epsilon):
    return _normed(x.float(), weight, bias, epsilon, False, False, x.dtype)


def dropout_add_layer_norm(
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
    """Layer norm of x = dropout(x0 * rowscale * layerscale) + residual.

    Returns it in x0's type; with prenorm also x, in the residual's type, without residual in
    float32 where residual_in_fp32; with return_dropout_mask also the mask of what stays.
    """
    return _added(
        x0,
        residual,
        weight,
        bias,
        dropout_p,
        epsilon,
        rowscale,
        layerscale,
        prenorm,
        residual_in_fp32,
        return_dropout_mask,
        False,
    )


def dropout_add_layer_norm_subset(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    layerscale=None,
    x0_subset=None,
    out_subset=None,
    rowscale_const=1.0,
    out_numrows=0,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """dropout_add_layer_norm() where x0 and the output have some of the residual's rows.

    x0_subset, out_subset: for each row of the residual its row in x0 or in the output
    [out_numrows, size], counted from 1; 0: it has none.
    """
    return _added_subset(
        x0,
        residual,
        weight,
        bias,
        dropout_p,
        epsilon,
        layerscale,
        x0_subset,
        out_subset,
        rowscale_const,
        out_numrows,
        prenorm,
        residual_in_fp32,
        return_dropout_mask,
        False,
    )


def dropout_add_layer_norm_parallel_residual(
    x0,
    x1,
    residual,
    weight0,
    bias0,
    weight1,
    bias1,
    dropout_p,
    epsilon,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """Two layer norms (the second None without weight1) of dropout(x0) + dropout(x1) +
    residual; the rest as dropout_add_layer_norm(), with two masks."""
    return _added_parallel(
        x0,
        x1,
        residual,
        weight0,
        bias0,
        weight1,
        bias1,
        dropout_p,
        epsilon,
        prenorm,
        residual_in_fp32,
        return_dropout_mask,
        False,
    )


class DropoutAddLayerNorm(torch.nn.Module):
    """dropout_add_layer_norm() with its weight and bias; dropout in training only."""

    def __init__(
        self,
        hidden_size,
        prenorm=False,
        p=0.0,
        eps=1e-5,
        residual_in_fp32=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.prenorm, self.p, self.eps = prenorm, p, eps
        self.residual_in_fp32 = residual_in_fp32
        self.weight = torch.nn.Parameter(torch.empty(hidden_size, **options))
        self.bias = torch.nn.Parameter(torch.empty(hidden_size, **options))
        self.reset_parameters()

    def reset_parameters(self):
        init.ones_(self.weight)
        init.zeros_(self.bias)

    def forward(self, x0, residual=None):
        return dropout_add_layer_norm(
            x0,
            residual,
            self.weight,
            self.bias,
            self.p if self.training else 0.0,
            self.eps,
            prenorm=self.prenorm,
            residual_in_fp32=self.residual_in_fp32,
        )
