"""The MLP with squared ReLU. Plain torch."""

import torch.nn as nn

from flash_attn.ops.fused_dense import fused_mlp_func


def fused_dense_sqrelu_dense_function(x, weight1, bias1, weight2, bias2, checkpoint_lvl=0):
    """linear(relu(linear(x)) ** 2)."""
    return fused_mlp_func(
        x, weight1, weight2, bias1, bias2, "sqrelu", checkpoint_lvl=checkpoint_lvl
    )


class FusedDenseSqreluDense(nn.Module):
    """fused_dense_sqrelu_dense_function() with its layers fc1 and fc2."""

    def __init__(
        self,
        in_features,
        hidden_features=None,
        out_features=None,
        bias1=True,
        bias2=True,
        checkpoint_lvl=0,
        device=None,
        dtype=None,
    ):
        options = {"device": device, "dtype": dtype}
        super().__init__()
        hidden_features = hidden_features or in_features * 4
        out_features = out_features or in_features
        self.checkpoint_lvl = checkpoint_lvl
        self.fc1 = nn.Linear(in_features, hidden_features, bias=bias1, **options)
        self.fc2 = nn.Linear(hidden_features, out_features, bias=bias2, **options)

    def forward(self, x):
        return fused_dense_sqrelu_dense_function(
            x,
            self.fc1.weight,
            self.fc1.bias,
            self.fc2.weight,
            self.fc2.bias,
            self.checkpoint_lvl,
        )
