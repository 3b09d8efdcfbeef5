"""Layers of transformers: attention and MLP with norms, dropout and residual."""

from functools import partial
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor

from flash_attn.modules.mha import MHA
from flash_attn.modules.mlp import Mlp


class _DropPath(nn.Module):
    """Leaves out whole rows of the batch in training, and scales the others up."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = torch.rand(x.shape[0], *[1] * (x.dim() - 1), device=x.device) >= self.p
        return x * keep.to(x.dtype) / (1.0 - self.p)


def _add(part, residual):
    return part if residual is None else part + residual


class _Layer(nn.Module):
    """What both blocks share. fused_dropout_add_ln makes no difference: nothing is fused."""

    def _make(self, dim, mixer_cls, mlp_cls, norm_cls):
        if mixer_cls is None:
            mixer_cls = partial(MHA, num_heads=dim // 64)
        if mlp_cls is None:
            mlp_cls = partial(Mlp, hidden_features=4 * dim)
        self.mixer, self.norm1, self.mlp = mixer_cls(dim), norm_cls(dim), mlp_cls(dim)

    def _mark(self, sequence_parallel, mark_shared_params):
        """The marks of norms that utils.distributed looks for."""
        for name in ("norm1", "norm2"):
            for parameter in getattr(self, name, nn.Identity()).parameters():
                if sequence_parallel:
                    parameter._sequence_parallel = True
                if mark_shared_params:
                    parameter._shared_params = True

    @staticmethod
    def _normed(norm, x):
        return norm(x.to(dtype=norm.weight.dtype))

    def _kept(self, residual):
        return residual.float() if self.residual_in_fp32 else residual

    def allocate_inference_cache(self, batch_size, max_seqlen, dtype=None, **kwargs):
        return self.mixer.allocate_inference_cache(
            batch_size, max_seqlen, dtype=dtype, **kwargs
        )


class Block(_Layer):
    """With prenorm: dropout, add, norm, mixer, dropout, add, norm, MLP; forward() takes and
    gives (hidden_states, residual), of which the first has not been added yet. Without:
    mixer, dropout, add, norm, MLP, dropout, add, norm; forward() gives hidden_states.

    mlp_cls=nn.Identity: without the MLP's half. return_residual: mixer and MLP give
    (output, input).
    """

    def __init__(
        self,
        dim,
        mixer_cls=None,
        mlp_cls=None,
        norm_cls=nn.LayerNorm,
        dropout_cls=nn.Dropout,
        prenorm=True,
        resid_dropout1=0.0,
        resid_dropout2=0.0,
        drop_path1=0.0,
        drop_path2=0.0,
        fused_dropout_add_ln=False,
        return_residual=False,
        residual_in_fp32=False,
        sequence_parallel=False,
        mark_shared_params=False,
    ):
        super().__init__()
        if residual_in_fp32 and not prenorm:
            raise ValueError("residual_in_fp32: is for prenorm")
        self.prenorm, self.return_residual = prenorm, return_residual
        self.residual_in_fp32 = residual_in_fp32
        self.fused_dropout_add_ln = fused_dropout_add_ln
        self._make(dim, mixer_cls, mlp_cls, norm_cls)
        self.dropout1, self.drop_path1 = dropout_cls(resid_dropout1), _DropPath(drop_path1)
        if not isinstance(self.mlp, nn.Identity):
            self.dropout2 = dropout_cls(resid_dropout2)
            self.drop_path2 = _DropPath(drop_path2)
            self.norm2 = norm_cls(dim)
        self._mark(sequence_parallel, mark_shared_params)

    def _before(self, x, residual, mixer_subset, mixer_kwargs):
        """prenorm."""
        residual = _add(self.drop_path1(self.dropout1(x)), residual)
        x, residual = self._normed(self.norm1, residual), self._kept(residual)
        if mixer_subset is not None:
            mixer_kwargs = {**mixer_kwargs, "mixer_subset": mixer_subset}
        x = self.mixer(x, **mixer_kwargs)
        if mixer_subset is not None:
            residual = residual[:, mixer_subset]
        if isinstance(self.mlp, nn.Identity):
            return x, residual
        residual = self.drop_path2(self.dropout2(x)) + residual
        x, residual = self._normed(self.norm2, residual), self._kept(residual)
        return self.mlp(x), residual

    def _after(self, x, mixer_kwargs):
        """Norms after the additions."""
        out = self.mixer(x, **mixer_kwargs)
        out, x = out if self.return_residual else (out, x)
        x = self._normed(self.norm1, self.drop_path1(self.dropout1(out)) + x)
        if isinstance(self.mlp, nn.Identity):
            return x
        out = self.mlp(x)
        out, x = out if self.return_residual else (out, x)
        return self._normed(self.norm2, self.drop_path2(self.dropout2(out)) + x)

    def forward(
        self,
        hidden_states: Tensor,
        residual: Optional[Tensor] = None,
        mixer_subset=None,
        mixer_kwargs=None,
    ):
        mixer_kwargs = {} if mixer_kwargs is None else mixer_kwargs
        if self.prenorm:
            return self._before(hidden_states, residual, mixer_subset, mixer_kwargs)
        if residual is not None:
            raise ValueError("residual: is for prenorm")
        return self._after(hidden_states, mixer_kwargs)


class ParallelBlock(_Layer):
    """Mixer and MLP beside each other (GPT-J, GPT-NeoX, PaLM): forward() takes and gives
    (output of the mixer, of the MLP, residual), of which the first two have not been added.

    tied_norm: one norm for both.
    """

    def __init__(
        self,
        dim,
        mixer_cls=None,
        mlp_cls=None,
        norm_cls=nn.LayerNorm,
        dropout_cls=nn.Dropout,
        resid_dropout1=0.0,
        resid_dropout2=0.0,
        tied_norm=False,
        fused_dropout_add_ln=False,
        residual_in_fp32=False,
        sequence_parallel=False,
        mark_shared_params=False,
    ):
        super().__init__()
        self.tied_norm, self.residual_in_fp32 = tied_norm, residual_in_fp32
        self.fused_dropout_add_ln = fused_dropout_add_ln
        self._make(dim, mixer_cls, mlp_cls, norm_cls)
        self.dropout1, self.dropout2 = dropout_cls(resid_dropout1), dropout_cls(resid_dropout2)
        if not tied_norm:
            self.norm2 = norm_cls(dim)
        self._mark(sequence_parallel, mark_shared_params)

    def forward(
        self,
        hidden_states1: Tensor,
        hidden_states2: Optional[Tensor] = None,
        residual: Optional[Tensor] = None,
        mixer_kwargs=None,
    ):
        """hidden_states2: None in the first block."""
        added = self.dropout1(hidden_states1)
        if hidden_states2 is not None:
            added = added + self.dropout2(hidden_states2)
        residual = _add(added, residual)
        first = second = self._normed(self.norm1, residual)
        if not self.tied_norm:
            second = self._normed(self.norm2, residual)
        mixed = self.mixer(first, **({} if mixer_kwargs is None else mixer_kwargs))
        return mixed, self.mlp(second), self._kept(residual)
