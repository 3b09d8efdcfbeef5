"""Activations of MLPs, with gradients. Plain torch."""

import torch
import torch.nn.functional as F


def _gelu_slope(x):
    """Derivative of the tanh form of GELU."""
    inner = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    return 0.5 * x * (1 - inner * inner) * (0.79788456 + 0.1070322243 * x * x) + 0.5 * (
        1 + inner
    )


def bias_gelu(y, bias):
    """GELU in its tanh form of y + bias, in y's type."""
    return F.gelu(bias + y, approximate="tanh").to(dtype=y.dtype)


def bias_gelu_back(g, y, bias):
    """Gradients of bias_gelu() for y and bias."""
    grad = (_gelu_slope(bias + y) * g).to(dtype=y.dtype)
    return grad, grad.sum(dim=tuple(range(grad.dim() - 1)), dtype=bias.dtype)


def gelu_fwd(x):
    return F.gelu(x, approximate="tanh")


def gelu_bwd(g, x):
    return (_gelu_slope(x) * g).to(dtype=x.dtype)


def bias_gelu_impl(input, bias):
    """bias_gelu(), differentiable."""
    return bias_gelu(input, bias)


def fast_gelu_impl(input):
    """GELU in its tanh form, differentiable."""
    return gelu_fwd(input)


def relu_bwd(g, x):
    return torch.where(x >= 0, g, 0.0).to(dtype=x.dtype)


def sqrelu_fwd(x):
    """relu(x) ** 2."""
    r = F.relu(x.float())
    return (r * r).to(dtype=x.dtype)


def sqrelu_bwd(g, x):
    return (2.0 * g * F.relu(x.float())).to(dtype=x.dtype)


def swiglu_fwd(x, y):
    """silu(x) * y, in float32 inside, in the type of x."""
    return (F.silu(x.float()) * y.float()).to(x.dtype)


def swiglu_bwd(x, y, g):
    """Gradients of swiglu_fwd() for x and y."""
    xf, yf, gf = x.float(), y.float(), g.float()
    s = torch.sigmoid(xf)
    dx = s * (1 + xf * (1.0 - s)) * gf * yf
    return dx.to(x.dtype), (xf * s * gf).to(y.dtype)


class SwiGLUFunction(torch.autograd.Function):
    """swiglu_fwd() that keeps x and y and nothing else."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return swiglu_fwd(x, y)

    @staticmethod
    def backward(ctx, dout):
        return swiglu_bwd(*ctx.saved_tensors, dout)


swiglu = SwiGLUFunction.apply
