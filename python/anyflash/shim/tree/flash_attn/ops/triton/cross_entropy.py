"""Cross entropy with smoothing and z-loss, also of logits split over processes. Plain torch."""

from typing import Optional, Tuple

import torch


def _over_group(value, process_group, operation):
    torch.distributed.all_reduce(value, op=operation, group=process_group)
    return value


def _global_lse(lse, process_group):
    ops = torch.distributed.ReduceOp
    largest = _over_group(lse.clone(), process_group, ops.MAX)
    total = _over_group(torch.exp(lse - largest), process_group, ops.SUM)
    return largest + torch.log(total)


class CrossEntropyLoss(torch.autograd.Function):
    """See cross_entropy_loss()."""

    @staticmethod
    def forward(
        ctx,
        logits,
        labels,
        precomputed_lse=None,
        smoothing=0.0,
        logit_scale=1.0,
        lse_square_scale=0.0,
        ignore_index=-100,
        inplace_backward=False,
        process_group=None,
    ):
        columns, world, rank = logits.shape[1], 1, 0
        if process_group is not None:
            world = torch.distributed.get_world_size(process_group)
            rank = torch.distributed.get_rank(process_group)
        scaled = logits.float() * logit_scale
        own = labels.long() - rank * columns
        ignored = labels == ignore_index
        is_own = (own >= 0) & (own < columns) & ~ignored
        own = own.clamp(0, columns - 1)
        lse = precomputed_lse
        if lse is None:
            lse = torch.logsumexp(scaled, dim=-1)
            if world > 1:
                lse = _global_lse(lse, process_group)
        picked = scaled.gather(1, own[:, None]).squeeze(1).masked_fill(~is_own, 0.0)
        if smoothing > 0:  # else infinite logits of other classes do not count
            mean = scaled.sum(-1) / (columns * world)
            picked = (1.0 - smoothing) * picked + smoothing * mean
        if world > 1:
            picked = _over_group(picked, process_group, torch.distributed.ReduceOp.SUM)
        z_losses = (lse_square_scale * lse.square()).masked_fill(ignored, 0.0)
        losses = (lse - picked).masked_fill(ignored, 0.0) + z_losses
        ctx.save_for_backward(logits, lse, own, is_own, ignored)
        ctx.options = (smoothing, logit_scale, lse_square_scale, columns * world)
        ctx.inplace_backward = inplace_backward
        ctx.mark_non_differentiable(z_losses)
        return losses, z_losses

    @staticmethod
    def backward(ctx, grad_losses, grad_z_losses):
        logits, lse, own, is_own, ignored = ctx.saved_tensors
        smoothing, logit_scale, lse_square_scale, classes = ctx.options
        grad = torch.exp(logits.float() * logit_scale - lse[:, None])
        grad *= (1.0 + 2.0 * lse_square_scale * lse)[:, None]
        grad -= smoothing / classes
        hit = (smoothing - 1.0) * is_own[:, None].to(grad.dtype)
        grad.scatter_add_(1, own[:, None], hit)
        grad *= (grad_losses.masked_fill(ignored, 0.0) * logit_scale)[:, None]
        if ctx.inplace_backward:
            return (logits.copy_(grad), *[None] * 8)
        return (grad.to(logits.dtype), *[None] * 8)


def cross_entropy_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    precomputed_lse: Optional[torch.Tensor] = None,
    label_smoothing: float = 0.0,
    logit_scale: float = 1.0,
    lse_square_scale: float = 0.0,
    ignore_index=-100,
    inplace_backward: bool = False,
    process_group=None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Losses of logits [rows, classes] (multiplied by logit_scale) for labels [rows].

    lse_square_scale * logsumexp ** 2 is added (z-loss). inplace_backward: the gradient is
    written over the logits. process_group: each process holds its part of the classes.
    Returns losses and z-losses, float32 [rows], 0 for rows of ignore_index; the z-losses
    are part of the losses, and for logging.
    """
    return CrossEntropyLoss.apply(
        logits,
        labels,
        precomputed_lse,
        label_smoothing,
        logit_scale,
        lse_square_scale,
        ignore_index,
        inplace_backward,
        process_group,
    )
