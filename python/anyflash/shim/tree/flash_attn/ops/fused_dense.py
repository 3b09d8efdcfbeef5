"""Linear layers and MLPs of the fused kernels' names, also tensor parallel. Plain torch."""

from functools import partial
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.utils.checkpoint import checkpoint

from flash_attn.ops.activations import sqrelu_fwd
from flash_attn.utils.distributed import (
    all_gather,
    all_reduce,
    get_dim_for_local_rank,
    reduce_scatter,
)


def _gathered(x, process_group, sequence_parallel):
    """All processes' rows of x, where each has its part of the sequence."""
    if process_group is None or not sequence_parallel:
        return x
    return all_gather(x, process_group)


def fused_dense_func(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    return_residual: bool = False,
    process_group: Optional[ProcessGroup] = None,
    sequence_parallel: bool = True,
):
    """F.linear(); with process_group and sequence_parallel of the gathered rows of x.

    return_residual: also x itself.
    """
    out = F.linear(_gathered(x, process_group, sequence_parallel), weight, bias)
    return (out, x) if return_residual else out


class FusedDense(nn.Linear):
    """nn.Linear by fused_dense_func()."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        return_residual: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)
        self.return_residual = return_residual

    def forward(self, x, process_group=None):
        return fused_dense_func(
            x, self.weight, self.bias, self.return_residual, process_group
        )


def _share(features, process_group, multiple_of):
    if features % multiple_of:
        raise ValueError(f"{features} features are no multiple of {multiple_of}")
    world = torch.distributed.get_world_size(process_group)
    rank = torch.distributed.get_rank(process_group)
    return get_dim_for_local_rank(features, world, rank, multiple_of)


class ColumnParallelLinear(nn.Linear):
    """Linear layer of which each process holds some output features."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        process_group: ProcessGroup,
        bias: bool = True,
        sequence_parallel=True,
        multiple_of=1,
        device=None,
        dtype=None,
    ) -> None:
        own = _share(out_features, process_group, multiple_of)
        super().__init__(in_features, own, bias=bias, device=device, dtype=dtype)
        self.process_group = process_group
        self.sequence_parallel = sequence_parallel

    def forward(self, x):
        return fused_dense_func(
            x,
            self.weight,
            self.bias,
            process_group=self.process_group,
            sequence_parallel=self.sequence_parallel,
        )


class RowParallelLinear(nn.Linear):
    """Linear layer of which each process holds some input features; results are summed."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        process_group: ProcessGroup,
        bias: bool = True,
        sequence_parallel=True,
        multiple_of=1,
        device=None,
        dtype=None,
    ) -> None:
        own = _share(in_features, process_group, multiple_of)
        has_bias = bias and torch.distributed.get_rank(process_group) == 0
        super().__init__(own, out_features, bias=has_bias, device=device, dtype=dtype)
        self.process_group = process_group
        self.sequence_parallel = sequence_parallel

    def forward(self, x):
        out = fused_dense_func(x, self.weight, self.bias)
        reduce = reduce_scatter if self.sequence_parallel else all_reduce
        return reduce(out, self.process_group)


_ACTIVATIONS = {
    "gelu_approx": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "sqrelu": sqrelu_fwd,
}


def fused_mlp_func(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    bias1: Optional[Tensor] = None,
    bias2: Optional[Tensor] = None,
    activation: str = "gelu_approx",
    save_pre_act: bool = True,
    return_residual: bool = False,
    checkpoint_lvl: int = 0,
    heuristic: int = 0,
    process_group: Optional[ProcessGroup] = None,
    sequence_parallel: bool = True,
):
    """linear(activation(linear(x))), activation "gelu_approx", "relu" or "sqrelu".

    checkpoint_lvl above 0, or save_pre_act False: the backward computes what is between
    anew. heuristic means nothing here. return_residual: also x.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation: {activation!r} is none of {', '.join(_ACTIVATIONS)}")

    def layers(x):
        inner = F.linear(_gathered(x, process_group, sequence_parallel), weight1, bias1)
        return F.linear(_ACTIVATIONS[activation](inner), weight2, bias2)

    saves_memory = checkpoint_lvl > 0 or not save_pre_act
    if saves_memory and torch.is_grad_enabled():
        out = checkpoint(layers, x, use_reentrant=False)
    else:
        out = layers(x)
    return (out, x) if return_residual else out


class FusedMLP(nn.Module):
    """fused_mlp_func() with its layers fc1 and fc2."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        bias1=True,
        bias2=True,
        activation="gelu_approx",
        return_residual=False,
        checkpoint_lvl=0,
        heuristic="auto",
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        hidden_features = 4 * in_features if hidden_features is None else hidden_features
        out_features = in_features if out_features is None else out_features
        self.activation, self.return_residual = activation, return_residual
        self.checkpoint_lvl, self.heuristic = checkpoint_lvl, heuristic
        self.fc1 = nn.Linear(in_features, hidden_features, bias=bias1, **options)
        self.fc2 = nn.Linear(hidden_features, out_features, bias=bias2, **options)

    def forward(self, x, process_group=None):
        out = fused_mlp_func(
            x,
            self.fc1.weight,
            self.fc2.weight,
            self.fc1.bias,
            self.fc2.bias,
            activation=self.activation,
            save_pre_act=self.training,
            checkpoint_lvl=self.checkpoint_lvl,
            process_group=process_group,
        )
        if process_group is not None:
            out = reduce_scatter(out, process_group)
        return (out, x) if self.return_residual else out


class ParallelFusedMLP(nn.Module):
    """FusedMLP of which each process holds some hidden features."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        activation="gelu_approx",
        process_group: ProcessGroup = None,
        bias1=True,
        bias2=True,
        sequence_parallel=True,
        checkpoint_lvl=0,
        heuristic="auto",
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        if process_group is None:
            raise ValueError("process_group: is needed")
        hidden_features = 4 * in_features if hidden_features is None else hidden_features
        out_features = in_features if out_features is None else out_features
        self.activation, self.process_group = activation, process_group
        self.sequence_parallel, self.checkpoint_lvl = sequence_parallel, checkpoint_lvl
        self.heuristic = heuristic
        self.fc1 = ColumnParallelLinear(
            in_features, hidden_features, process_group, bias=bias1, **options
        )
        self.fc2 = RowParallelLinear(
            hidden_features, out_features, process_group, bias=bias2, **options
        )

    def forward(self, x):
        out = fused_mlp_func(
            x,
            self.fc1.weight,
            self.fc2.weight,
            self.fc1.bias,
            self.fc2.bias,
            activation=self.activation,
            save_pre_act=self.training,
            checkpoint_lvl=self.checkpoint_lvl,
            process_group=self.process_group,
            sequence_parallel=self.sequence_parallel,
        )
        reduce = reduce_scatter if self.sequence_parallel else all_reduce
        return reduce(out, self.process_group)
