"""What tests of attention need: padding, packing, masks, and the formula in plain torch."""

import math
from typing import Optional

import torch

from flash_attn.bert_padding import pad_input, unpad_input


def generate_random_padding_mask(
    max_seqlen, batch_size, device, mode="random", zero_lengths=False
):
    """bool [B, max_seqlen], True is kept. mode: "full", "random" (the last 20 may be
    padding), "third" (at least a third is kept); zero_lengths: some have nothing."""
    least = {
        "full": max_seqlen,
        "random": max(0 if zero_lengths else 1, max_seqlen - 20),
        "third": max_seqlen // 3,
    }[mode]
    lengths = torch.randint(least, max_seqlen + 1, (batch_size, 1), device=device)
    if zero_lengths:
        lengths[::5], lengths[-1] = 0, 0
    return torch.arange(max_seqlen, device=device) < lengths


class _Rows:
    """x [B, S, ...] packed by a padding mask (None: all rows), and back."""

    def __init__(self, x, padding, unused):
        self.batch, self.rows = x.shape[:2]
        self.used, self.indices = None, None
        if padding is None:
            steps = torch.arange(self.batch + 1, device=x.device, dtype=torch.int32)
            self.x, self.bounds, self.longest = x.flatten(0, 1), steps * self.rows, self.rows
        else:
            self.x, self.indices, self.bounds, self.longest, self.used = unpad_input(
                x, padding, unused
            )

    def pack(self, x):
        x = x.flatten(0, 1)
        return x if self.indices is None else x[self.indices]

    def pad(self, x):
        if self.indices is None:
            return x.unflatten(0, (self.batch, self.rows))
        return pad_input(x, self.indices, self.batch, self.rows)


def _leaf(x):
    return x.detach().requires_grad_()


def generate_qkv(
    q,
    k,
    v,
    query_padding_mask=None,
    key_padding_mask=None,
    qv=None,
    kvpacked=False,
    qkvpacked=False,
    query_unused_mask=None,
    key_unused_mask=None,
):
    """Packed leaves of q [B, Sq, H, D], k, v [B, Sk, G, D] with their bounds, padded leaves,
    and functions that pad results. In the order of the real one; qkvpacked and kvpacked give
    fewer."""
    if kvpacked and qkvpacked:
        raise ValueError("kvpacked and qkvpacked: one of them")
    rows = _Rows(q, query_padding_mask, query_unused_mask)
    keys = _Rows(k, key_padding_mask, key_unused_mask)
    packed_v = keys.pack(v)
    if qkvpacked:
        joint = torch.stack([rows.x, keys.x, packed_v], dim=1)
        whole = torch.stack([q, k, v], dim=2)
        bounds = (rows.bounds, rows.longest)
        return (_leaf(joint), *bounds, _leaf(whole), rows.pad, rows.pad)
    bounds = (rows.bounds, keys.bounds)
    longest = (rows.longest, keys.longest)
    if kvpacked:
        joint = torch.stack([keys.x, packed_v], dim=1)
        whole = (_leaf(q), _leaf(torch.stack([k, v], dim=2)))
        back = (rows.pad, rows.pad, keys.pad)
        return (_leaf(rows.x), _leaf(joint), *bounds, *longest, *whole, *back)
    return (
        _leaf(rows.x),
        _leaf(keys.x),
        _leaf(packed_v),
        None if qv is None else rows.pack(qv).detach(),
        *bounds,
        rows.used,
        keys.used,
        *longest,
        _leaf(q),
        _leaf(k),
        _leaf(v),
        None if qv is None else qv.detach(),
        rows.pad,
        rows.pad,
        keys.pad,
    )


def _places(seqlen_q, seqlen_k, query_padding_mask, key_padding_mask, key_leftpad, device):
    """(place of each row among the keys [.., Sq, 1], number of each key, count of keys)."""
    i = torch.arange(seqlen_q, device=device)[:, None]
    j = torch.arange(seqlen_k, device=device)
    if key_leftpad is not None:
        j = j - key_leftpad[:, None, None, None]
        j = torch.where(j >= 0, j, 2**32)  # never visible

    def count(mask, otherwise):
        return otherwise if mask is None else mask.sum(-1)[:, None, None, None]

    keys = count(key_padding_mask, seqlen_k)
    return i + keys - count(query_padding_mask, seqlen_q), j, keys


def construct_local_mask(
    seqlen_q,
    seqlen_k,
    window_size=(None, None),
    sink_token_length=0,
    query_padding_mask=None,
    key_padding_mask=None,
    key_leftpad=None,
    device=None,
):
    """bool, True where a key is hidden: outside of the window (left, right) about the place
    of a row, but for the first sink_token_length keys. left None: all keys to the left."""
    place, j, keys = _places(
        seqlen_q, seqlen_k, query_padding_mask, key_padding_mask, key_leftpad, device
    )
    left, right = window_size
    last = place + right
    if left is None:
        return j > last
    last = torch.minimum(last, torch.as_tensor(keys, device=device))
    return (j > last) | ((j < place - left) & (j >= sink_token_length))


def construct_chunk_mask(
    seqlen_q,
    seqlen_k,
    attention_chunk,
    query_padding_mask=None,
    key_padding_mask=None,
    key_leftpad=None,
    device=None,
):
    """bool, True where a key is in another chunk of attention_chunk places than the row."""
    place, j, _ = _places(
        seqlen_q, seqlen_k, query_padding_mask, key_padding_mask, key_leftpad, device
    )
    first = place - place % attention_chunk
    return (j < first) | (j >= first + attention_chunk)


def _weights(scores, sinks):
    """Softmax, with a logit for each head besides where there are sinks."""
    if sinks is None:
        return torch.softmax(scores, dim=-1)
    column = sinks.to(torch.float32)[:, None, None].expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat([scores.float(), column], dim=-1), dim=-1)[..., :-1]


def _descaled(x, factors, group=1):
    """x [B, S, H, D] times factors [B, H / group], in float32 inside."""
    if x is None or factors is None:
        return x
    return (x.float() * factors.repeat_interleave(group, 1)[:, None, :, None]).to(x.dtype)


def attention_ref(
    q,
    k,
    v,
    query_padding_mask=None,
    key_padding_mask=None,
    key_leftpad=None,
    attn_bias=None,
    dropout_p=0.0,
    dropout_mask=None,
    causal=False,
    qv=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(None, None),
    attention_chunk=0,
    sink_token_length=0,
    learnable_sink: Optional[torch.Tensor] = None,
    softcap=0.0,
    upcast=True,
    reorder_ops=False,
    intermediate_dtype=None,
):
    """(out [B, Sq, H, Dv], weights [B, H, Sq, Sk]) by the formula, in float32 where upcast.

    reorder_ops scales k in place of q, to see what another order of rounding costs.
    """
    dtype, group = q.dtype, q.shape[2] // k.shape[2]
    if upcast:
        q, k, v = q.float(), k.float(), v.float()
        qv = None if qv is None else qv.float()
    q, qv = _descaled(q, q_descale, group), _descaled(qv, q_descale, group)
    k, v = _descaled(k, k_descale), _descaled(v, v_descale)
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scale = 1.0 / math.sqrt(q.shape[-1] + (0 if qv is None else v.shape[-1]))
    factors = (q, k * scale) if reorder_ops else (q * scale, k)
    scores = torch.einsum("bihd,bjhd->bhij", *factors)
    if qv is not None:
        scores = scores + torch.einsum("bihd,bjhd->bhij", qv * scale, v)
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    window = (window_size[0], 0) if causal else tuple(window_size)
    masks = (query_padding_mask, key_padding_mask, key_leftpad, q.device)
    hidden = torch.zeros(1, dtype=torch.bool, device=q.device)
    sizes = scores.shape[-2:]
    if window != (None, None):
        hidden = hidden | construct_local_mask(*sizes, window, sink_token_length, *masks)
    if attention_chunk > 0:
        hidden = hidden | construct_chunk_mask(*sizes, attention_chunk, *masks)
    if key_padding_mask is not None:
        hidden = hidden | ~key_padding_mask[:, None, None, :]
    scores = scores.masked_fill(hidden, float("-inf"))
    if attn_bias is not None:
        scores = scores + attn_bias
    weights = _weights(scores, learnable_sink).to(v.dtype)
    weights = weights.masked_fill(hidden, 0.0)  # a row that sees nothing is zero, not NaN
    if query_padding_mask is not None:
        weights = weights.masked_fill(~query_padding_mask[:, None, :, None], 0.0)
    kept = weights if dropout_mask is None else weights.masked_fill(~dropout_mask, 0.0)
    if intermediate_dtype is not None:
        kept = kept.to(intermediate_dtype).to(kept.dtype)
    out = torch.einsum("bhij,bjhd->bihd", kept, v / (1 - dropout_p))
    return out.to(dtype), weights.to(dtype)
