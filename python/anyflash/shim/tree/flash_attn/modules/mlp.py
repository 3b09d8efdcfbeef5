"""MLPs, plain and gated.

    y = GatedMlp(512, activation=torch.nn.functional.silu)(x)        # SwiGLU
"""

import torch.nn as nn
import torch.nn.functional as F

from flash_attn import _left_out
from flash_attn.ops.activations import swiglu
from flash_attn.ops.fused_dense import FusedMLP

__all__ = ["FusedMLP", "GatedMlp", "Mlp"]


class Mlp(nn.Module):
    """fc2(activation(fc1(x)))."""

    def __init__(
        self, in_features, hidden_features=None, out_features=None,
        activation=F.gelu, bias1=True, bias2=True, return_residual=False,
        device=None, dtype=None,
    ):
        super().__init__()
        hidden_features = hidden_features or 4 * in_features
        place = {"device": device, "dtype": dtype}
        self.fc1 = nn.Linear(in_features, hidden_features, bias1, **place)
        self.activation = activation
        self.fc2 = nn.Linear(hidden_features, out_features or in_features, bias2, **place)
        self.return_residual = return_residual

    def forward(self, x):
        y = self.fc2(self.activation(self.fc1(x)))
        return (y, x) if self.return_residual else y


class GatedMlp(nn.Module):
    """fc2(a * activation(b)) with (a, b) = fc1(x): GLU, SwiGLU.

    hidden_features: 8 / 3 of in_features if None, rounded up to a multiple of multiple_of.
    """

    def __init__(
        self, in_features, hidden_features=None, out_features=None,
        activation=F.sigmoid, bias1=True, bias2=True, multiple_of=128, return_residual=False,
        device=None, dtype=None,
    ):
        super().__init__()
        size = int(8 * in_features / 3) if hidden_features is None else hidden_features
        size = -(-size // multiple_of) * multiple_of
        place = {"device": device, "dtype": dtype}
        self.fc1 = nn.Linear(in_features, 2 * size, bias1, **place)
        self.activation = activation
        self.fc2 = nn.Linear(size, out_features or in_features, bias2, **place)
        self.return_residual = return_residual

    def forward(self, x):
        a, b = self.fc1(x).tensor_split(2, dim=-1)
        hidden = swiglu(b, a) if self.activation is F.silu else a * self.activation(b)
        y = self.fc2(hidden)
        return (y, x) if self.return_residual else y


__getattr__ = _left_out.names(
    __name__, "ParallelFusedMLP", "ParallelGatedMlp", "ParallelMLP"
)
