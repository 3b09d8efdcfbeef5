"""Collectives with gradients, for tensor and sequence parallel layers."""

import torch
from torch import Tensor
from torch.distributed import ProcessGroup


def all_gather_raw(input_: Tensor, process_group: ProcessGroup, async_op: bool = False):
    """(the parts of all processes along the first axis, the handle)."""
    world = torch.distributed.get_world_size(process_group)
    output = input_.new_empty(world * input_.shape[0], *input_.shape[1:])
    handle = torch.distributed.all_gather_into_tensor(
        output, input_.contiguous(), group=process_group, async_op=async_op
    )
    return output, handle


def reduce_scatter_raw(input_: Tensor, process_group: ProcessGroup, async_op: bool = False):
    """(this process's part along the first axis of the sum, the handle)."""
    world = torch.distributed.get_world_size(process_group)
    if input_.shape[0] % world:
        raise ValueError(f"input_: {input_.shape[0]} rows do not divide by {world} processes")
    output = input_.new_empty(input_.shape[0] // world, *input_.shape[1:])
    handle = torch.distributed.reduce_scatter_tensor(
        output, input_.contiguous(), group=process_group, async_op=async_op
    )
    return output, handle


def all_reduce_raw(input_: Tensor, process_group: ProcessGroup, async_op: bool = False):
    """(the sum over all processes, the handle)."""
    input_ = input_.contiguous()
    handle = torch.distributed.all_reduce(input_, group=process_group, async_op=async_op)
    return input_, handle


class AllGatherFunc(torch.autograd.Function):
    """all_gather_raw(); the gradient is summed and scattered."""

    @staticmethod
    def forward(ctx, input_: Tensor, process_group: ProcessGroup) -> Tensor:
        ctx.process_group = process_group
        return all_gather_raw(input_, process_group)[0]

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return reduce_scatter_raw(grad_output, ctx.process_group)[0], None


all_gather = AllGatherFunc.apply


class ReduceScatterFunc(torch.autograd.Function):
    """reduce_scatter_raw(); the gradient is gathered."""

    @staticmethod
    def forward(ctx, input_: Tensor, process_group: ProcessGroup) -> Tensor:
        ctx.process_group = process_group
        return reduce_scatter_raw(input_, process_group)[0]

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return all_gather_raw(grad_output, ctx.process_group)[0], None


reduce_scatter = ReduceScatterFunc.apply


class AllReduceFunc(torch.autograd.Function):
    """all_reduce_raw(); the gradient passes as it is."""

    @staticmethod
    def forward(ctx, input_: Tensor, process_group: ProcessGroup) -> Tensor:
        return all_reduce_raw(input_.clone(), process_group)[0]

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        return grad_output, None


all_reduce = AllReduceFunc.apply


def _marked(model, mark):
    named = {n: p for n, p in model.named_parameters() if getattr(p, mark, False)}
    return [parameter for _, parameter in sorted(named.items())]


def sync_shared_params(model: torch.nn.Module, process_group: ProcessGroup):
    """Gives all processes the first one's values of parameters marked _shared_params."""
    first = torch.distributed.get_global_rank(process_group, 0)
    with torch.no_grad():
        for parameter in _marked(model, "_shared_params"):
            torch.distributed.broadcast(parameter, src=first, group=process_group)


def allreduce_sequence_parallel_grad(model: torch.nn.Module, process_group: ProcessGroup):
    """Sums the gradients of parameters marked _sequence_parallel over the processes."""
    gradients = [parameter.grad for parameter in _marked(model, "_sequence_parallel")]
    if not gradients:
        return
    with torch.no_grad():
        joined = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(joined, group=process_group)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, joined.split(sizes)):
            gradient.copy_(part.view_as(gradient))


def get_dim_for_local_rank(
    dim: int, world_size: int, local_rank: int, multiple_of: int = 1
) -> int:
    """A process's share of dim, in multiples; the first processes get what is left over."""
    multiples = dim // multiple_of
    share, left = divmod(multiples, world_size)
    return (share + int(local_rank < left)) * multiple_of
