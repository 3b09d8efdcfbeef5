"""The module of cross_entropy_loss()."""

import torch.nn as nn

from flash_attn.ops.triton.cross_entropy import cross_entropy_loss


class CrossEntropyLoss(nn.Module):
    """cross_entropy_loss() reduced: "mean" over the rows that count, "sum" or "none".

    With return_z_loss forward() gives (loss, z_loss), else loss.
    """

    def __init__(
        self,
        ignore_index=-100,
        reduction="mean",
        label_smoothing=0.0,
        logit_scale=1.0,
        lse_square_scale=0.0,
        inplace_backward=False,
        process_group=None,
        return_z_loss=False,
    ):
        super().__init__()
        if reduction not in ("mean", "none", "sum"):
            raise NotImplementedError("reduction: only 'mean', 'none' and 'sum' are there")
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing, self.logit_scale = label_smoothing, logit_scale
        self.lse_square_scale, self.inplace_backward = lse_square_scale, inplace_backward
        self.process_group, self.return_z_loss = process_group, return_z_loss

    def _reduced(self, values, target):
        if self.reduction == "mean":
            return values.sum() / (target != self.ignore_index).sum()
        return values.sum() if self.reduction == "sum" else values

    def forward(self, input, target, precomputed_lse=None):
        """input: [rows, classes], target: [rows]."""
        loss, z_loss = cross_entropy_loss(
            input,
            target,
            precomputed_lse,
            self.label_smoothing,
            self.logit_scale,
            self.lse_square_scale,
            self.ignore_index,
            self.inplace_backward,
            self.process_group,
        )
        loss = self._reduced(loss, target)
        return (loss, self._reduced(z_loss, target)) if self.return_z_loss else loss
