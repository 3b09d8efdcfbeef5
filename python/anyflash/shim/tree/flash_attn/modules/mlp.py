"""MLPs, plain and gated, also tensor parallel."""

import torch.nn as nn
import torch.nn.functional as F
from torch.distributed import ProcessGroup

from flash_attn.ops.activations import swiglu
from flash_attn.ops.fused_dense import (
    ColumnParallelLinear,
    FusedMLP,
    ParallelFusedMLP,
    RowParallelLinear,
)

__all__ = [
    "FusedMLP",
    "GatedMlp",
    "Mlp",
    "ParallelFusedMLP",
    "ParallelGatedMlp",
    "ParallelMLP",
]


def _gated_size(in_features, hidden_features, multiple_of):
    size = int(8 * in_features / 3) if hidden_features is None else hidden_features
    return (size + multiple_of - 1) // multiple_of * multiple_of


def _gated(y, activation):
    """The first half of y times the activation of the second."""
    if activation is F.sigmoid:
        return F.glu(y, dim=-1)
    y, gate = y.chunk(2, dim=-1)
    return swiglu(gate, y) if activation is F.silu else y * activation(gate)


class Mlp(nn.Module):
    """fc2(activation(fc1(x)))."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        activation=F.gelu,
        bias1=True,
        bias2=True,
        return_residual=False,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        out_features = in_features if out_features is None else out_features
        hidden_features = in_features * 4 if hidden_features is None else hidden_features
        self.return_residual, self.activation = return_residual, activation
        self.fc1 = nn.Linear(in_features, hidden_features, bias=bias1, **options)
        self.fc2 = nn.Linear(hidden_features, out_features, bias=bias2, **options)

    def forward(self, x):
        y = self.fc2(self.activation(self.fc1(x)))
        return (y, x) if self.return_residual else y


class ParallelMLP(nn.Module):
    """Mlp of which each process holds some hidden features."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        activation=F.gelu,
        process_group: ProcessGroup = None,
        sequence_parallel=True,
        bias1=True,
        bias2=True,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype, "sequence_parallel": sequence_parallel}
        super().__init__()
        out_features = in_features if out_features is None else out_features
        hidden_features = in_features * 4 if hidden_features is None else hidden_features
        self.activation = activation
        self.fc1 = ColumnParallelLinear(
            in_features, hidden_features, process_group, bias=bias1, **options
        )
        self.fc2 = RowParallelLinear(
            hidden_features, out_features, process_group, bias=bias2, **options
        )

    def forward(self, x):
        return self.fc2(self.activation(self.fc1(x)))


class GatedMlp(nn.Module):
    """fc2(a * activation(b)) with (a, b) = fc1(x): GLU, SwiGLU."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        activation=F.sigmoid,
        bias1=True,
        bias2=True,
        multiple_of=128,
        return_residual=False,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        out_features = in_features if out_features is None else out_features
        hidden_features = _gated_size(in_features, hidden_features, multiple_of)
        self.return_residual, self.activation = return_residual, activation
        self.fc1 = nn.Linear(in_features, 2 * hidden_features, bias=bias1, **options)
        self.fc2 = nn.Linear(hidden_features, out_features, bias=bias2, **options)

    def forward(self, x):
        y = self.fc2(_gated(self.fc1(x), self.activation))
        return (y, x) if self.return_residual else y


class ParallelGatedMlp(nn.Module):
    """GatedMlp of which each process holds some hidden features."""

    def __init__(
        self,
        in_features,
        process_group,
        hidden_features=None,
        out_features=None,
        activation=F.sigmoid,
        bias1=True,
        bias2=True,
        multiple_of=128,
        sequence_parallel=True,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype, "sequence_parallel": sequence_parallel}
        super().__init__()
        out_features = in_features if out_features is None else out_features
        hidden_features = _gated_size(in_features, hidden_features, multiple_of)
        self.activation = activation
        self.fc1 = ColumnParallelLinear(
            in_features, 2 * hidden_features, process_group, bias=bias1, **options
        )
        self.fc2 = RowParallelLinear(
            hidden_features, out_features, process_group, bias=bias2, **options
        )

    def forward(self, x):
        return self.fc2(_gated(self.fc1(x), self.activation))
