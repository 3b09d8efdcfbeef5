"""The layer of a transformer: attention and MLP with norms, dropout and residual.

    block = Block(512, mixer_cls=partial(MHA, num_heads=8, causal=True))
    x, residual = block(x, residual)
"""

from functools import partial
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor

from flash_attn import _left_out
from flash_attn.modules.mha import MHA
from flash_attn.modules.mlp import Mlp


class _DropPath(nn.Module):
    """In training, zeroes whole rows of the batch with probability p and scales the others."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        kept = torch.rand(len(x), *[1] * (x.dim() - 1), device=x.device) >= self.p
        return x * kept.to(x.dtype) / (1.0 - self.p)


class Block(nn.Module):
    """With prenorm: dropout, add, norm, mixer, dropout, add, norm, MLP; forward() takes and
    returns (hidden_states, residual), of which the first has not been added yet. Without:
    mixer, dropout, add, norm, MLP, dropout, add, norm; forward() returns hidden_states.

    mixer_cls, mlp_cls, norm_cls: called with dim. mlp_cls=nn.Identity: without the MLP's half.
    return_residual: mixer and MLP return (output, input). fused_dropout_add_ln has no effect:
    nothing is fused. sequence_parallel, mark_shared_params: the parameters of the norms get the
    attributes _sequence_parallel, _shared_params.
    """

    def __init__(
        self, dim,
        mixer_cls=None, mlp_cls=None, norm_cls=nn.LayerNorm, dropout_cls=nn.Dropout,
        prenorm=True, resid_dropout1=0.0, resid_dropout2=0.0, drop_path1=0.0, drop_path2=0.0,
        fused_dropout_add_ln=False, return_residual=False, residual_in_fp32=False,
        sequence_parallel=False, mark_shared_params=False,
    ):
        super().__init__()
        if residual_in_fp32 and not prenorm:
            raise ValueError("residual_in_fp32 requires prenorm")
        self.prenorm, self.return_residual = prenorm, return_residual
        self.fused_dropout_add_ln = fused_dropout_add_ln
        self.residual_in_fp32 = residual_in_fp32
        self.mixer = mixer_cls(dim) if mixer_cls else MHA(dim, num_heads=dim // 64)
        self.dropout1, self.drop_path1 = dropout_cls(resid_dropout1), _DropPath(drop_path1)
        self.norm1 = norm_cls(dim)
        self.mlp = mlp_cls(dim) if mlp_cls else Mlp(dim, hidden_features=4 * dim)
        marked = list(self.norm1.parameters())
        if self._has_mlp():
            self.dropout2, self.drop_path2 = dropout_cls(resid_dropout2), _DropPath(drop_path2)
            self.norm2 = norm_cls(dim)
            marked += self.norm2.parameters()
        for parameter in marked if sequence_parallel else ():
            parameter._sequence_parallel = True
        for parameter in marked if mark_shared_params else ():
            parameter._shared_params = True

    def _has_mlp(self):
        return not isinstance(self.mlp, nn.Identity)

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None, **kwargs):
        return self.mixer.allocate_inference_cache(
            batch_size, max_seqlen, dtype=dtype, **kwargs
        )

    def _added(self, half, x, residual):
        """residual plus what dropout leaves of x."""
        dropout, drop_path = (
            (self.dropout1, self.drop_path1) if half == 1 else (self.dropout2, self.drop_path2)
        )
        x = drop_path(dropout(x))
        return x if residual is None else x + residual

    @staticmethod
    def _normed(norm, total):
        return norm(total.to(norm.weight.dtype))

    def _before(self, x, residual, mixer_subset, mixer_kwargs):
        """Norms before the sublayers."""
        fp32 = torch.float32 if self.residual_in_fp32 else None
        residual = self._added(1, x, residual)
        x, residual = self._normed(self.norm1, residual), residual.to(fp32 or residual.dtype)
        if mixer_subset is not None:
            mixer_kwargs = {**mixer_kwargs, "mixer_subset": mixer_subset}
            residual = residual[:, mixer_subset]
        x = self.mixer(x, **mixer_kwargs)
        if not self._has_mlp():
            return x, residual
        residual = self._added(2, x, residual)
        x = self.mlp(self._normed(self.norm2, residual))
        return x, residual.to(fp32 or residual.dtype)

    def _after(self, x, mixer_kwargs):
        """Norms after the additions."""
        halves = [(1, partial(self.mixer, **mixer_kwargs), self.norm1)]
        if self._has_mlp():
            halves.append((2, self.mlp, self.norm2))
        for half, sublayer, norm in halves:
            out = sublayer(x)
            out, x = out if self.return_residual else (out, x)
            x = self._normed(norm, self._added(half, out, x))
        return x

    def forward(
        self, hidden_states: Tensor, residual: Optional[Tensor] = None,
        mixer_subset=None, mixer_kwargs=None,
    ):
        """mixer_subset: rows of the sequence whose output is wanted; prenorm only."""
        if self.prenorm:
            return self._before(hidden_states, residual, mixer_subset, mixer_kwargs or {})
        if residual is not None:
            raise ValueError("residual requires prenorm")
        return self._after(hidden_states, mixer_kwargs or {})


__getattr__ = _left_out.names(__name__, "ParallelBlock")
