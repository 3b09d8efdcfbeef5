"""Linear layers and MLPs under the names of flash-attn's fused kernels. Plain torch.

    y = FusedMLP(512)(x)        # 512 -> 2048 -> 512 features, with GELU
"""

from functools import partial
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.utils.checkpoint import checkpoint

from flash_attn import _left_out
from flash_attn.ops.activations import sqrelu_fwd
from flash_attn.utils.distributed import all_gather, reduce_scatter

_ACTIVATIONS = {
    "gelu_approx": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "sqrelu": sqrelu_fwd,
}


def fused_dense_func(
    x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, return_residual: bool = False,
    process_group: Optional[ProcessGroup] = None, sequence_parallel: bool = True,
):
    """F.linear(); with process_group and sequence_parallel of the rows of all processes.

    return_residual: also x itself.
    """
    is_split = process_group is not None and sequence_parallel
    out = F.linear(all_gather(x, process_group) if is_split else x, weight, bias)
    return (out, x) if return_residual else out


class FusedDense(nn.Linear):
    """nn.Linear by fused_dense_func()."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True,
        return_residual: bool = False, device=None, dtype=None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.return_residual = return_residual

    def forward(self, x, process_group=None):
        options = (self.return_residual, process_group)
        return fused_dense_func(x, self.weight, self.bias, *options)


def fused_mlp_func(
    x: Tensor, weight1: Tensor, weight2: Tensor,
    bias1: Optional[Tensor] = None, bias2: Optional[Tensor] = None,
    activation: str = "gelu_approx", save_pre_act: bool = True, return_residual: bool = False,
    checkpoint_lvl: int = 0, heuristic: int = 0,
    process_group: Optional[ProcessGroup] = None, sequence_parallel: bool = True,
):
    """linear(activation(linear(x))), activation "gelu_approx", "relu" or "sqrelu".

    With checkpoint_lvl above 0, or save_pre_act False, the backward pass computes the hidden
    features again. heuristic has no effect. return_residual: also x.
    """
    if activation not in _ACTIVATIONS:
        names = ", ".join(_ACTIVATIONS)
        raise ValueError(f"activation must be one of {names}, not {activation!r}")

    def layers(x):
        options = {"process_group": process_group, "sequence_parallel": sequence_parallel}
        hidden = fused_dense_func(x, weight1, bias1, **options)
        return F.linear(_ACTIVATIONS[activation](hidden), weight2, bias2)

    saves_memory = checkpoint_lvl > 0 or not save_pre_act
    if saves_memory and torch.is_grad_enabled():
        out = checkpoint(layers, x, use_reentrant=False)
    else:
        out = layers(x)
    return (out, x) if return_residual else out


class FusedMLP(nn.Module):
    """fused_mlp_func() with its layers fc1 and fc2."""

    def __init__(
        self, in_features, hidden_features=None, out_features=None, bias1=True, bias2=True,
        activation="gelu_approx", return_residual=False, checkpoint_lvl=0, heuristic="auto",
        device=None, dtype=None,
    ):
        super().__init__()
        hidden_features = hidden_features or 4 * in_features
        place = {"device": device, "dtype": dtype}
        self.fc1 = nn.Linear(in_features, hidden_features, bias1, **place)
        self.fc2 = nn.Linear(hidden_features, out_features or in_features, bias2, **place)
        self.activation, self.return_residual = activation, return_residual
        self.checkpoint_lvl, self.heuristic = checkpoint_lvl, heuristic

    def forward(self, x, process_group=None):
        weights = (self.fc1.weight, self.fc2.weight, self.fc1.bias, self.fc2.bias)
        options = {"checkpoint_lvl": self.checkpoint_lvl, "process_group": process_group}
        out = fused_mlp_func(x, *weights, self.activation, self.training, **options)
        if process_group is not None:
            out = reduce_scatter(out, process_group)
        return (out, x) if self.return_residual else out


__getattr__ = _left_out.names(
    __name__, "ColumnParallelLinear", "ParallelFusedMLP", "RowParallelLinear"
)
