"""Padded batches [B, S, ...] into packed rows [total, ...] and back. Differentiable."""

import torch
import torch.nn.functional as F


def index_first_axis(input, indices):
    """input[indices]: rows of the first axis."""
    return input[indices]


def index_put_first_axis(values, indices, first_axis_dim):
    """Zeros [first_axis_dim, ...] with values in the rows `indices`."""
    out = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return out.index_copy(0, indices, values)


def index_first_axis_residual(input, indices):
    """(input[indices], input)."""
    return input[indices], input.view_as(input)


def _bounds(lengths):
    return F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))


def _rows(mask):
    return torch.nonzero(mask.flatten(), as_tuple=False).flatten()


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """The rows of hidden_states [B, S, ...] that attention_mask [B, S] (1 is valid) marks.

    Rows marked by unused_mask are kept too, without counting as used. Returns rows
    [total, ...], their indices in [B * S], cu_seqlens int32 [B + 1], the longest length, and
    the used lengths int32 [B].
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    indices = _rows(kept)
    return (
        index_first_axis(hidden_states.flatten(0, 1), indices),
        indices,
        _bounds(lengths),
        lengths.max().item(),
        attention_mask.sum(dim=-1, dtype=torch.int32),
    )


def unpad_input_for_concatenated_sequences(hidden_states, attention_mask_in_length):
    """unpad_input() for rows that hold several sequences one after the other.

    attention_mask_in_length [B, S]: the lengths of a row's sequences, then zeros. Returns
    rows, indices, cu_seqlens over all sequences, the longest length.
    """
    total = attention_mask_in_length.sum(dim=-1, keepdim=True)
    positions = torch.arange(attention_mask_in_length.shape[1], device=total.device)
    indices = _rows(positions < total)
    lengths = attention_mask_in_length.flatten()
    lengths = lengths[_rows(lengths)]
    return (
        index_first_axis(hidden_states.flatten(0, 1), indices),
        indices,
        _bounds(lengths),
        lengths.max().item(),
    )


def pad_input(hidden_states, indices, batch, seqlen):
    """Rows [total, ...] back in [batch, seqlen, ...], zeros elsewhere."""
    out = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return out.unflatten(0, (batch, seqlen))
