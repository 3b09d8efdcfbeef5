"""Layer norm and RMS norm with the additions before them, in float32 inside. Plain torch.

    y, total = layer_norm_fn(x, weight, bias, residual, prenorm=True)    # total: x + residual
"""

import torch
import torch.nn.functional as F

from flash_attn import _left_out


def normalize(x, weight, bias, eps, is_rms_norm):
    """The norm of x over its last dimension; all in float32, bias None for none."""
    if not is_rms_norm:
        return F.layer_norm(x, weight.shape, weight, bias, eps)
    y = x * weight * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if bias is None else y + bias


def _dropout(x, p):
    """(x with dropout, the mask of what is kept)."""
    if p == 0.0:
        return x, None
    kept = torch.rand(x.shape, device=x.device) >= p
    return x * kept / (1.0 - p), kept


def layer_norm_fn(
    x, weight, bias, residual=None, x1=None, weight1=None, bias1=None,
    eps=1e-6, dropout_p=0.0, rowscale=None, prenorm=False, residual_in_fp32=False,
    zero_centered_weight=False, is_rms_norm=False, return_dropout_mask=False,
    out_dtype=None, out=None, residual_out=None,
):
    """Norm over the last dimension of dropout(x * rowscale) + dropout(x1) + residual.

    Returns y; then the norm with weight1, bias1 where they are given; with prenorm also the
    sum (in the residual's type; without residual in float32 if residual_in_fp32, else in x's);
    with return_dropout_mask also the masks of x and of x1, or None. rowscale: x.shape[:-1].
    """
    scaled = x.float() if rowscale is None else x.float() * rowscale.float().unsqueeze(-1)
    total, mask = _dropout(scaled, dropout_p)
    mask1 = None
    if x1 is not None:
        other, mask1 = _dropout(x1.float(), dropout_p)
        total = total + other
    total_dtype = torch.float32 if residual_in_fp32 else x.dtype
    if residual is not None:
        total, total_dtype = total + residual.float(), residual.dtype

    def norm(weight, bias):
        weight = weight.float() + (1.0 if zero_centered_weight else 0.0)
        bias = None if bias is None else bias.float()
        return normalize(total, weight, bias, eps, is_rms_norm).to(out_dtype or x.dtype)

    y = norm(weight, bias)
    results = [y if out is None else out.copy_(y)]
    if weight1 is not None:
        results.append(norm(weight1, bias1))
    if prenorm:
        total = total.to(total_dtype)
        results.append(total if residual_out is None else residual_out.copy_(total))
    if return_dropout_mask:
        results += [mask, mask1]
    return results[0] if len(results) == 1 else tuple(results)


def rms_norm_fn(
    x, weight, bias, residual=None, x1=None, weight1=None, bias1=None,
    eps=1e-6, dropout_p=0.0, rowscale=None, prenorm=False, residual_in_fp32=False,
    zero_centered_weight=False, return_dropout_mask=False,
    out_dtype=None, out=None, residual_out=None,
):
    """layer_norm_fn() without the mean: x / sqrt(mean(x * x) + eps)."""
    summands = (residual, x1, weight1, bias1, eps, dropout_p, rowscale, prenorm)
    options = (residual_in_fp32, zero_centered_weight, True, return_dropout_mask)
    return layer_norm_fn(x, weight, bias, *summands, *options, out_dtype, out, residual_out)


class RMSNorm(torch.nn.Module):
    """rms_norm_fn() with its weight, without a bias; dropout in training only.

    zero_centered_weight: the weight is kept less 1, and begins at 0.
    """

    def __init__(
        self, hidden_size, eps=1e-5, dropout_p=0.0,
        zero_centered_weight=False, device=None, dtype=None,
    ):
        super().__init__()
        self.eps, self.zero_centered_weight = eps, zero_centered_weight
        self.drop = torch.nn.Dropout(dropout_p) if dropout_p > 0.0 else None
        weight = torch.empty(hidden_size, device=device, dtype=dtype)
        self.weight = torch.nn.Parameter(weight)
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        self.weight.data.fill_(0.0 if self.zero_centered_weight else 1.0)

    def forward(self, x, residual=None, prenorm=False, residual_in_fp32=False):
        options = {"prenorm": prenorm, "residual_in_fp32": residual_in_fp32, "eps": self.eps}
        if self.drop is not None and self.training:
            options["dropout_p"] = self.drop.p
        options["zero_centered_weight"] = self.zero_centered_weight
        return rms_norm_fn(x, self.weight, self.bias, residual, **options)


__getattr__ = _left_out.names(
    __name__, "layer_norm_linear_fn", "layer_norm_ref", "rms_norm_ref"
)
