"""Rows of padded batches taken out and put back, in plain torch."""

import torch


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """(rows [total, ...], indices, cu_seqlens, longest, used) of hidden_states [B, S, ...]."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(-1, dtype=torch.int32)
    indices = kept.flatten().nonzero().flatten()
    starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    used = attention_mask.sum(-1, dtype=torch.int32)
    rows = hidden_states.flatten(0, 1)[indices]
    return rows, indices, starts, int(lengths.max()), used


def pad_input(hidden_states, indices, batch, seqlen):
    padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return padded.index_put((indices,), hidden_states).unflatten(0, (batch, seqlen))
