"""Padded batches [B, S, ...] into packed rows [total, ...] and back. Differentiable.

    rows, indices, cu_seqlens, longest, used = unpad_input(x, attention_mask)
    x = pad_input(rows, indices, batch, seqlen)
"""

import torch


def index_first_axis(input, indices):
    """The rows `indices` of the first axis."""
    return input[indices]


def index_put_first_axis(values, indices, first_axis_dim):
    """Zeros [first_axis_dim, ...] with values in the rows `indices`."""
    zeros = values.new_zeros(first_axis_dim, *values.shape[1:])
    return zeros.index_copy(0, indices, values)


def index_first_axis_residual(input, indices):
    """(the rows `indices` of the first axis, input)."""
    return input[indices], input.view_as(input)


def _pack(hidden_states, kept, lengths):
    """The rows marked in kept [B, S], as sequences of `lengths`: (rows, indices in [B * S],
    cu_seqlens int32, the largest length)."""
    indices = kept.reshape(-1).nonzero().squeeze(1)
    cu_seqlens = lengths.new_zeros(lengths.numel() + 1, dtype=torch.int32)
    cu_seqlens[1:] = lengths.cumsum(0)
    rows = hidden_states.flatten(0, 1)[indices]
    return rows, indices, cu_seqlens, int(lengths.max())


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """The rows of hidden_states [B, S, ...] that attention_mask [B, S] (1 is valid) marks.

    Rows marked by unused_mask are kept as well, but do not count as used. Returns rows
    [total, ...], their indices in [B * S], cu_seqlens int32 [B + 1], the longest length, and
    the used lengths int32 [B].
    """
    used = attention_mask.sum(1, dtype=torch.int32)
    kept, lengths = attention_mask, used
    if unused_mask is not None:
        kept = attention_mask + unused_mask
        lengths = kept.sum(1, dtype=torch.int32)
    return *_pack(hidden_states, kept, lengths), used


def unpad_input_for_concatenated_sequences(hidden_states, attention_mask_in_length):
    """unpad_input() for rows that hold several sequences one after the other.

    attention_mask_in_length [B, S]: the lengths of the sequences in a row, then zeros. Returns
    rows, indices, cu_seqlens over all sequences, and the longest length.
    """
    places = torch.arange(attention_mask_in_length.shape[1], device=hidden_states.device)
    kept = places < attention_mask_in_length.sum(1)[:, None]
    lengths = attention_mask_in_length[attention_mask_in_length > 0]
    return _pack(hidden_states, kept, lengths)


def pad_input(hidden_states, indices, batch, seqlen):
    """Rows [total, ...] back in [batch, seqlen, ...], zeros elsewhere."""
    padded = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return padded.unflatten(0, (batch, seqlen))


def __getattr__(name):
    """rearrange and repeat of einops, which programs import from here."""
    if name not in ("rearrange", "repeat"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import einops

    return getattr(einops, name)
