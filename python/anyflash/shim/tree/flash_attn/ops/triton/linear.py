"""A linear layer with its activation. Plain torch."""

from typing import Optional

import torch
import torch.nn.functional as F

from flash_attn.ops.triton import k_activations

#: (function, derivative).
_KNOWN = {
    "id": (lambda x: x, torch.ones_like),
    "gelu": (k_activations.gelu, k_activations.gelu_grad),
    "gelu_approx": (k_activations.gelu_approx, k_activations.gelu_approx_grad),
    "squared_relu": (k_activations.squared_relu, k_activations.squared_relu_grad),
}


def _known(activation):
    if activation not in _KNOWN:
        raise ValueError(f"activation: {activation!r}, expected one of {', '.join(_KNOWN)}")
    return _KNOWN[activation]


def triton_linear_act(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor] = None,
    activation: str = "id",
    save_act_input: bool = False,
) -> torch.Tensor:
    """activation(linear(x)); with save_act_input also what it was computed of."""
    before = F.linear(x, weight, bias)
    out = _known(activation)[0](before)
    return (out, before) if save_act_input else out


def triton_dgrad_act(
    grad_output: torch.Tensor,
    weight: torch.Tensor,
    activation: str = "id",
    act_input: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """(grad_output @ weight) times the derivative of the activation at act_input."""
    gradient = grad_output @ weight
    if activation == "id":
        return gradient
    return gradient * _known(activation)[1](act_input)
