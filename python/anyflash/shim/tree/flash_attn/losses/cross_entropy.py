"""The module of ops.triton.cross_entropy.cross_entropy_loss().

    loss = CrossEntropyLoss()(logits, labels)       # [rows, classes], int [rows]
"""

import torch.nn as nn

from flash_attn.ops.triton.cross_entropy import cross_entropy_loss


class CrossEntropyLoss(nn.Module):
    """cross_entropy_loss() reduced: "mean" over the rows that count, "sum" or "none".

    With return_z_loss forward() returns (loss, z_loss), else loss.
    """

    def __init__(
        self, ignore_index=-100, reduction="mean", label_smoothing=0.0, logit_scale=1.0,
        lse_square_scale=0.0, inplace_backward=False, process_group=None, return_z_loss=False,
    ):
        super().__init__()
        if reduction not in ("mean", "none", "sum"):
            raise NotImplementedError(f"reduction must be mean, none or sum, not {reduction}")
        self.reduction, self.return_z_loss = reduction, return_z_loss
        self.ignore_index, self.inplace_backward = ignore_index, inplace_backward
        self.label_smoothing, self.logit_scale = label_smoothing, logit_scale
        self.lse_square_scale, self.process_group = lse_square_scale, process_group

    def forward(self, input, target, precomputed_lse=None):
        """input: [rows, classes], target: [rows]."""
        found = cross_entropy_loss(
            input,
            target,
            precomputed_lse,
            label_smoothing=self.label_smoothing,
            logit_scale=self.logit_scale,
            lse_square_scale=self.lse_square_scale,
            ignore_index=self.ignore_index,
            inplace_backward=self.inplace_backward,
            process_group=self.process_group,
        )
        if self.reduction != "none":
            found = [losses.sum() for losses in found]
        if self.reduction == "mean":
            found = [total / (target != self.ignore_index).sum() for total in found]
        return tuple(found) if self.return_z_loss else found[0]
