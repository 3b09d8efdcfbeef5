"""attend_masked() of _masked.py for other devices: by flash_attn's functions, or by torch.

    out = attend_elsewhere(q, k, v, Keys(padding), None, scale, True, -1, -1, 0.0, 0.0, 0)

Padding is removed first and restored afterwards, as transformers itself does for flash_attn.
Masks of scores, for which flash_attn has no argument, are computed by plain matrix products.
"""

import torch

from . import _sink_functions
from ._masked import (
    PACKED,
    Keys,
    Scores,
    Sequences,
    Starts,
    run_of,
    sequence_starts,
    used_of,
    window_of,
)
from .providers.compose import starts


def visible_mask(mask, causal, window, q_len, k_len):
    """bool [B, 1, Sq, Sk], True is visible, of Keys or Sequences."""
    left, right = window_of(mask, causal) or window
    if isinstance(mask, Sequences):
        numbers, offset = mask.numbers, 0
        visible = numbers[:, None, :, None] == numbers[:, None, None, :]
    else:
        visible, offset = mask.visible[:, None, None, :], used_of(mask) - q_len
    device = visible.device
    query = torch.arange(q_len, device=device)[:, None] + offset
    key = torch.arange(k_len, device=device)
    if causal:
        visible = visible & (key <= query)
    if left >= 0:
        visible = visible & (key >= query - left)
    if right >= 0:
        visible = visible & (key <= query + right)
    return visible.expand(-1, -1, q_len, -1)


def _plain(query, key, value, mask, sinks, scale, softcap, dropout):
    """softmax(query key^T) value in float32; mask: of scores, bool or added."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query.float() @ key.float().transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    else:
        scores = scores + mask
    if sinks is not None:
        column = sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, column), -1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., : key.shape[2]]
    weights = torch.nn.functional.dropout(weights, dropout)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous()


def _unpadded(query, key, value, mask, aligned):
    """(q, k, v as packed rows, cu_q, cu_k, the rows' places in query) without hidden rows.

    aligned: queries are rows of the keys' sequence, and those of padding are removed, too.
    """
    batch, q_len = query.shape[:2]
    keys, used = mask.visible, used_of(mask)
    queries = keys.new_ones(batch, q_len)
    if aligned and q_len > 1:
        queries = keys[:, used - q_len : used]
    places = queries.flatten().nonzero().flatten()
    rows = (query.flatten(0, 1)[places], key[keys], value[keys])
    return (*rows, starts(queries.sum(1)), starts(keys.sum(1)), places)


def _has_holes(mask, window):
    """Whether a window spans hidden keys, whose removal would shift it."""
    if not isinstance(mask, Keys) or window == (-1, -1):
        return False
    return run_of(mask.visible) is None


def attend_elsewhere(
    query, key, value, mask, sinks, scale, causal, left, right, softcap, dropout, seed
):
    """As _masked.attend_masked, for any device."""
    window = window_of(mask, causal) or (left, right)
    if _has_holes(mask, window):
        mask = Scores(visible_mask(mask, causal, window, query.shape[2], key.shape[2]))
    if isinstance(mask, Scores):
        values = mask.values[..., : key.shape[2]]
        return _plain(query, key, value, values, sinks, scale, softcap, dropout)
    options = {
        "dropout_p": dropout,
        "softmax_scale": scale,
        "causal": causal,
        "window_size": window,
        "softcap": softcap,
        "s_aux": sinks,
    }
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    if mask is None:
        return _sink_functions.flash_attn_func(query, key, value, **options)
    if isinstance(mask, PACKED):
        places = None
        if isinstance(mask, Sequences):
            bounds = sequence_starts(mask.numbers)
            mask = Starts(bounds, bounds)
        cu_q, cu_k = mask.cu_q, mask.cu_k
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))
    else:
        aligned = causal or window != (-1, -1)
        q, k, v, cu_q, cu_k, places = _unpadded(query, key, value, mask, aligned)
    longest = int(cu_q.diff().max()), int(cu_k.diff().max())
    found = _sink_functions.flash_attn_varlen_func(q, k, v, cu_q, cu_k, *longest, **options)
    if places is None:
        return found.unflatten(0, query.shape[:2])
    out = found.new_zeros(query.shape[0] * query.shape[1], *found.shape[1:])
    return out.index_copy(0, places, found).unflatten(0, query.shape[:2])
