"""Cross entropy with smoothing and z-loss, also of logits split over processes. Plain torch.

    losses, z_losses = cross_entropy_loss(logits, labels)       # [rows, classes], int [rows]
"""

from typing import Optional, Tuple

import torch
import torch.distributed as dist


def _over_processes(values, operation, group):
    """The values reduced over the group, in place; None: this process is alone."""
    if group is not None:
        dist.all_reduce(values, op=operation, group=group)
    return values


def _logsumexp(scaled, group):
    lse = torch.logsumexp(scaled, dim=-1)
    if group is None:
        return lse
    top = _over_processes(lse.clone(), dist.ReduceOp.MAX, group)
    return top + _over_processes((lse - top).exp(), dist.ReduceOp.SUM, group).log()


class CrossEntropyLoss(torch.autograd.Function):
    """See cross_entropy_loss(). The backward pass forms the softmax from logits and lse."""

    @staticmethod
    def forward(
        ctx, logits, labels,
        precomputed_lse=None, smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0,
        ignore_index=-100, inplace_backward=False, process_group=None,
    ):
        columns, classes = logits.shape[1], logits.shape[1]
        column = labels.long()  # of the label, among those that this process holds
        if process_group is not None:
            classes *= dist.get_world_size(process_group)
            column = column - columns * dist.get_rank(process_group)
        ignored = labels == ignore_index
        is_here = (column >= 0) & (column < columns) & ~ignored
        column = column.clamp(0, columns - 1)[:, None]
        scaled = logits.float() * logit_scale
        lse = precomputed_lse
        if lse is None:
            lse = _logsumexp(scaled, process_group)
        target = torch.where(is_here, scaled.gather(1, column)[:, 0], 0.0)
        if smoothing > 0:  # not otherwise: 0 * inf, of a logit of another class, is NaN
            target = (1.0 - smoothing) * target + smoothing * scaled.sum(-1) / classes
        target = _over_processes(target, dist.ReduceOp.SUM, process_group)
        z_losses = torch.where(ignored, 0.0, lse_square_scale * lse.square())
        losses = torch.where(ignored, 0.0, lse - target) + z_losses
        ctx.save_for_backward(logits, lse, column, is_here, ignored)
        ctx.options = smoothing, classes, logit_scale, lse_square_scale, inplace_backward
        ctx.mark_non_differentiable(z_losses)
        return losses, z_losses

    @staticmethod
    def backward(ctx, grad_losses, grad_z_losses):
        logits, lse, column, is_here, ignored = ctx.saved_tensors
        smoothing, classes, logit_scale, lse_square_scale, inplace_backward = ctx.options
        grad = torch.exp(logits.float() * logit_scale - lse[:, None])  # the softmax
        grad *= (1.0 + 2.0 * lse_square_scale * lse)[:, None]
        grad -= smoothing / classes
        grad.scatter_add_(1, column, (smoothing - 1.0) * is_here[:, None].float())
        grad *= logit_scale * torch.where(ignored, 0.0, grad_losses)[:, None]
        grad = logits.copy_(grad) if inplace_backward else grad.to(logits.dtype)
        return (grad, *[None] * 8)


def cross_entropy_loss(
    logits: torch.Tensor, labels: torch.Tensor,
    precomputed_lse: Optional[torch.Tensor] = None, label_smoothing: float = 0.0,
    logit_scale: float = 1.0, lse_square_scale: float = 0.0, ignore_index=-100,
    inplace_backward: bool = False, process_group=None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Losses of logits [rows, classes] (multiplied by logit_scale) for labels [rows].

    lse_square_scale * logsumexp ** 2 is added (z-loss). inplace_backward: the gradient is
    written over the logits. process_group: each process holds its part of the classes.
    Returns losses and z-losses, float32 [rows], 0 for rows of ignore_index; the z-losses are
    already in the losses, and are returned for logging.
    """
    options = (label_smoothing, logit_scale, lse_square_scale, ignore_index)
    return CrossEntropyLoss.apply(
        logits, labels, precomputed_lse, *options, inplace_backward, process_group
    )
