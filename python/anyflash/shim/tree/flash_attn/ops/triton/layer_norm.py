"""Layer norm and RMS norm with the additions before them, in float32 inside. Plain torch."""

import torch
import torch.nn.functional as F


def _normed(x, weight, bias, eps, zero_centered_weight, is_rms_norm, dtype):
    """x is float32; the result has `dtype`."""
    if weight is None:
        return None
    weight = weight.float() + 1.0 if zero_centered_weight else weight.float()
    bias = None if bias is None else bias.float()
    if not is_rms_norm:
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps).to(dtype)
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
    return (y if bias is None else y + bias).to(dtype)


def _drop(x, p):
    """(x with dropout, the mask of what stays)."""
    keep = torch.rand(x.shape, device=x.device) >= p
    return x * keep * (1.0 / (1.0 - p)), keep


def _given(out, y):
    return y if out is None else out.copy_(y)


def layer_norm_fn(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    residual_in_fp32=False,
    zero_centered_weight=False,
    is_rms_norm=False,
    return_dropout_mask=False,
    out_dtype=None,
    out=None,
    residual_out=None,
):
    """Norm over the last dimension of dropout(x * rowscale) + dropout(x1) + residual.

    Returns y; then the norm with weight1, bias1 where they are given; with prenorm also the
    sum (of the residual's type; else float32 with residual_in_fp32; else x's); with
    return_dropout_mask also the masks of x and of x1, or None. rowscale: x.shape[:-1].
    """
    total = x.float()
    if rowscale is not None:
        total = total * rowscale[..., None].float()
    masks = [None, None]
    if dropout_p > 0:
        total, masks[0] = _drop(total, dropout_p)
    if x1 is not None:
        other = x1.float()
        if dropout_p > 0:
            other, masks[1] = _drop(other, dropout_p)
        total = total + other
    sum_dtype = torch.float32 if residual_in_fp32 else x.dtype
    if residual is not None:
        total, sum_dtype = total + residual.float(), residual.dtype
    options = (eps, zero_centered_weight, is_rms_norm, out_dtype or x.dtype)
    results = [_given(out, _normed(total, weight, bias, *options))]
    if weight1 is not None:
        results.append(_normed(total, weight1, bias1, *options))
    if prenorm:
        results.append(_given(residual_out, total.to(sum_dtype)))
    if return_dropout_mask:
        results += masks
    return results[0] if len(results) == 1 else tuple(results)


def rms_norm_fn(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    residual_in_fp32=False,
    zero_centered_weight=False,
    return_dropout_mask=False,
    out_dtype=None,
    out=None,
    residual_out=None,
):
    """layer_norm_fn() without the mean: x / sqrt(mean(x * x) + eps)."""
    return layer_norm_fn(
        x,
        weight,
        bias,
        residual,
        x1,
        weight1,
        bias1,
        eps,
        dropout_p,
        rowscale,
        prenorm,
        residual_in_fp32,
        zero_centered_weight,
        True,
        return_dropout_mask,
        out_dtype,
        out,
        residual_out,
    )


class RMSNorm(torch.nn.Module):
    """RMS norm with dropout and a residual, as rms_norm_fn()."""

    def __init__(
        self,
        hidden_size,
        eps=1e-5,
        dropout_p=0.0,
        zero_centered_weight=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.eps, self.zero_centered_weight = eps, zero_centered_weight
        self.drop = torch.nn.Dropout(dropout_p) if dropout_p > 0.0 else None
        self.weight = torch.nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.constant_(self.weight, 0.0 if self.zero_centered_weight else 1.0)

    def forward(self, x, residual=None, prenorm=False, residual_in_fp32=False):
        return rms_norm_fn(
            x,
            self.weight,
            self.bias,
            residual=residual,
            eps=self.eps,
            dropout_p=self.drop.p if self.drop is not None and self.training else 0.0,
            prenorm=prenorm,
            residual_in_fp32=residual_in_fp32,
            zero_centered_weight=self.zero_centered_weight,
        )


def layer_norm_linear_fn(
    x,
    norm_weight,
    norm_bias,
    linear_weight,
    linear_bias,
    residual=None,
    eps=1e-6,
    prenorm=False,
    residual_in_fp32=False,
    is_rms_norm=False,
):
    """A linear layer on the norm of x + residual; with prenorm also that sum."""
    y = layer_norm_fn(
        x,
        norm_weight,
        norm_bias,
        residual,
        eps=eps,
        prenorm=prenorm,
        residual_in_fp32=residual_in_fp32,
        is_rms_norm=is_rms_norm,
    )
    y, total = y if prenorm else (y, None)
    out = F.linear(y.to(linear_weight.dtype), linear_weight, linear_bias)
    return (out, total) if prenorm else out


def _reference(
    x,
    weight,
    bias,
    residual,
    x1,
    weight1,
    bias1,
    eps,
    dropout_p,
    rowscale,
    prenorm,
    zero_centered_weight,
    masks,
    upcast,
    is_rms_norm,
):
    dtype = x.dtype
    if upcast:
        given = (x, weight, bias, residual, x1, weight1, bias1)
        given = [None if t is None else t.float() for t in given]
        x, weight, bias, residual, x1, weight1, bias1 = given
    if rowscale is not None:
        x = x * rowscale[..., None]
    parts = []
    for part, mask in ((x, masks[0]), (x1, masks[1])):
        if part is not None and dropout_p > 0.0:
            if mask is None:
                part = F.dropout(part, p=dropout_p)
            else:
                part = part.masked_fill(~mask, 0.0) / (1.0 - dropout_p)
        parts.append(part)
    total = parts[0] if x1 is None else parts[0] + parts[1]
    if residual is not None:
        total = (total + residual).to(total.dtype)

    def normed(scale, shift):
        scale = scale + 1.0 if zero_centered_weight else scale
        if not is_rms_norm:
            return F.layer_norm(total, total.shape[-1:], scale, shift, eps).to(dtype)
        y = total * torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps) * scale
        return (y if shift is None else y + shift).to(dtype)

    results = [normed(weight, bias)]
    if weight1 is not None:
        results.append(normed(weight1, bias1))
    if prenorm:
        results.append(total)
    return results[0] if len(results) == 1 else tuple(results)


def layer_norm_ref(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    zero_centered_weight=False,
    dropout_mask=None,
    dropout_mask1=None,
    upcast=False,
):
    """layer_norm_fn() in the types given (upcast: in float32), with given dropout masks."""
    masks = (dropout_mask, dropout_mask1)
    given = (x, weight, bias, residual, x1, weight1, bias1, eps, dropout_p, rowscale, prenorm)
    return _reference(*given, zero_centered_weight, masks, upcast, False)


def rms_norm_ref(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    zero_centered_weight=False,
    dropout_mask=None,
    dropout_mask1=None,
    upcast=False,
):
    """rms_norm_fn() in the types given (upcast: in float32), with given dropout masks."""
    masks = (dropout_mask, dropout_mask1)
    given = (x, weight, bias, residual, x1, weight1, bias1, eps, dropout_p, rowscale, prenorm)
    return _reference(*given, zero_centered_weight, masks, upcast, True)
