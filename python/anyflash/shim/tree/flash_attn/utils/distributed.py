"""Collectives with gradients, along the first axis of tensors of one shape.

    rows_of_all = all_gather(rows, process_group)
"""

import torch
import torch.distributed as dist

from flash_attn import _left_out


def _gather(x, group):
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts)


def _sum(x, group):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def _own_part(x, group):
    """This process's part of the sum; by all_reduce, which every backend has."""
    world = dist.get_world_size(group)
    if x.shape[0] % world:
        raise ValueError(f"{x.shape[0]} rows do not divide by {world} processes")
    return _sum(x, group).chunk(world)[dist.get_rank(group)].clone()


class AllGatherFunc(torch.autograd.Function):
    """The rows of all processes; its gradient is summed, and each process gets its part."""

    @staticmethod
    def forward(ctx, input_, process_group):
        ctx.group = process_group
        return _gather(input_, process_group)

    @staticmethod
    def backward(ctx, gradient):
        return _own_part(gradient, ctx.group), None


class ReduceScatterFunc(torch.autograd.Function):
    """This process's part of the sum; its gradient is that of all processes."""

    @staticmethod
    def forward(ctx, input_, process_group):
        ctx.group = process_group
        return _own_part(input_, process_group)

    @staticmethod
    def backward(ctx, gradient):
        return _gather(gradient, ctx.group), None


class AllReduceFunc(torch.autograd.Function):
    """The sum over all processes; its gradient is passed on unchanged."""

    @staticmethod
    def forward(ctx, input_, process_group):
        return _sum(input_, process_group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


all_gather = AllGatherFunc.apply
all_reduce = AllReduceFunc.apply
reduce_scatter = ReduceScatterFunc.apply

__getattr__ = _left_out.names(
    __name__,
    *("all_gather_raw", "all_reduce_raw", "reduce_scatter_raw", "get_dim_for_local_rank"),
    *("allreduce_sequence_parallel_grad", "sync_shared_params"),
)
