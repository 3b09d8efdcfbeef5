"""Activations and their derivatives, by name. Plain torch, on tensors: nothing is compiled."""

import math
from enum import Enum
from typing import Optional

import torch
import torch.nn.functional as F

_SLOPE = 0.01  # of leaky ReLU


class Activation(str, Enum):
    SquaredReLU = "squared_relu"
    GeLU = "gelu"
    GeLUApprox = "gelu_approx"
    LeakyReLU = "leaky_relu"
    ReLU = "relu"


def tanh(x):
    return torch.tanh(x)


def cosh(x):
    return torch.cosh(x)


def relu(x):
    return F.relu(x)


def relu_grad(x):
    return (x > 0).to(x.dtype)


def squared_relu(x):
    return F.relu(x) ** 2


def squared_relu_grad(x):
    return 2 * F.relu(x)


def leaky_relu(x):
    return F.leaky_relu(x, _SLOPE)


def leaky_relu_grad(x):
    return torch.where(x >= 0, 1.0, _SLOPE).to(x.dtype)


def gelu(x):
    return F.gelu(x)


def gelu_grad(x):
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density


def gelu_approx(x):
    return F.gelu(x, approximate="tanh")


def gelu_approx_grad(x):
    factor = math.sqrt(2 / math.pi)
    inner = torch.tanh(factor * (x + 0.044715 * x**3))
    slope = factor * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope


_FUNCTIONS = {
    Activation.SquaredReLU: (squared_relu, squared_relu_grad),
    Activation.GeLU: (gelu, gelu_grad),
    Activation.GeLUApprox: (gelu_approx, gelu_approx_grad),
    Activation.LeakyReLU: (leaky_relu, leaky_relu_grad),
    Activation.ReLU: (relu, relu_grad),
}


def get_triton_activation_kernel(activation: Optional[Activation]):
    """The function of that name; None for None."""
    return _FUNCTIONS[activation][0] if activation else None


def get_triton_activation_bwd_kernel(activation: Optional[Activation]):
    """Its derivative; None for None."""
    return _FUNCTIONS[activation][1] if activation else None
