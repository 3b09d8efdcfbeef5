"""Features that a provider lacks, computed exactly in torch operations around it.

Each takes a Call and returns a simpler one with the same result: append() removes new keys
and rotary embedding, gather() pages, batch indices and left padding, packed() a cache's
lengths, fold() groups of heads, widened() head sizes, Dense packed sequences. visible(),
seen() and bias() describe the mask to kernels that know less about it. They read no value back
from the device, so they work in a compiled graph and never wait.
"""

import contextlib

import torch
from torch.nn.functional import pad

from .call import unit

#: Device types that have autocast(); determined here, because a compiled graph cannot ask.
_AUTOCAST = frozenset(
    [n for n in ("cpu", "cuda", "xpu", "mps") if torch.amp.is_autocast_available(n)]
)


def without_autocast(device_type):
    """A context in which operations keep their types, whatever autocast() is outside."""
    if device_type in _AUTOCAST:
        return torch.autocast(device_type, enabled=False)
    return contextlib.nullcontext()


def rotate(x, cos, sin, interleaved):
    """The pairs (a, b) of the last dimension turned: (a cos - b sin, a sin + b cos)."""
    axis = -1 if interleaved else -2
    a, b = x.unflatten(-1, (-1, 2) if interleaved else (2, -1)).unbind(axis)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2)


def _rotated_rows(x, cos, sin, interleaved):
    """x [B, S, H, D] rotated by cos, sin [B, S, dim / 2]; in float32, as in flash-attn."""
    cos, sin = cos.float().unsqueeze(2), sin.float().unsqueeze(2)
    dim = 2 * cos.shape[-1]
    turned = rotate(x[..., :dim].float(), cos, sin, interleaved)
    return torch.cat((turned.to(x.dtype), x[..., dim:]), -1)


def _rotated(call):
    """q and k_new with rotary embedding at the positions of cache_seqlens."""
    if call.rotary_cos is None:
        return call.q, call.k_new
    cos, sin = call.rotary_cos, call.rotary_sin
    start = call.seqused_k.long()[:, None]

    def turn(x, steps):
        rows = (start + steps).clamp(max=cos.shape[0] - 1)
        return _rotated_rows(x, cos[rows], sin[rows], call.interleaved)

    device = call.q.device
    local = call.causal or call.window[0] >= 0 or call.window[1] >= 0
    length = call.q.shape[1]
    steps = torch.arange(length, device=device)
    new = torch.arange(call.k_new.shape[1], device=device)
    return turn(call.q, steps if local else steps * 0), turn(call.k_new, new)


def _places(call):
    """Indices of the new keys in k, v: (first axis, row), each [B, Snew]."""
    rows = call.seqused_k.long()[:, None] + torch.arange(
        call.k_new.shape[1], device=call.q.device
    )
    size = call.k.shape[1]
    if call.block_table is not None:
        page = call.block_table.long().gather(1, rows // size)
        return page, rows % size
    batch = call.batch_idx
    if batch is None:
        batch = torch.arange(call.q.shape[0], device=call.q.device)
    return batch.long()[:, None].expand_as(rows), rows


def append(call):
    """The call after k_new, v_new have been rotated and written into k, v."""
    if call.k_new is None:
        return call
    q, k_new = _rotated(call)
    place = _places(call)
    call.k.index_put_(place, k_new)
    call.v.index_put_(place, call.v_new)
    return call.but(
        q=q,
        k_new=None,
        v_new=None,
        rotary_cos=None,
        rotary_sin=None,
        seqused_k=call.seqused_k + k_new.shape[1],
    )


def _pages(call):
    """k, v [B, pages * page size, G, D] of the block table's pages."""
    table = call.block_table.long()
    size = call.k.shape[1]
    # Table entries past a sequence's last page may be anything: they are never used.
    first = torch.arange(table.shape[1], device=table.device) * size
    table = torch.where(first < call.seqused_k[:, None], table, 0)
    return [x[table].flatten(1, 2) for x in (call.k, call.v)]


def gather(call):
    """The call with k, v [B, Sk, G, D] of which each sequence's keys start at row 0."""
    if call.block_table is not None:
        k, v = _pages(call)
        call = call.but(k=k, v=v, block_table=None)
    if call.batch_idx is not None:
        index = call.batch_idx.long()
        call = call.but(k=call.k[index], v=call.v[index], batch_idx=None)
    if call.leftpad is not None:
        length = call.k.shape[1]
        used = length if call.seqused_k is None else call.seqused_k
        rows = call.leftpad.long()[:, None] + torch.arange(length, device=call.q.device)
        rows = rows.clamp(max=length - 1)
        batch = torch.arange(rows.shape[0], device=rows.device)[:, None]
        call = call.but(
            k=call.k[batch, rows],
            v=call.v[batch, rows],
            seqused_k=(used - call.leftpad).to(torch.int32),
            leftpad=None,
        )
    return call


def every(count, step, device):
    """cu_seqlens of `count` sequences of `step` rows."""
    return torch.arange(0, (count + 1) * step, max(step, 1), dtype=torch.int32, device=device)


def starts(lengths):
    """int32 [B + 1]: cu_seqlens of these lengths."""
    return pad(lengths.cumsum(0), (1, 0)).to(torch.int32)


def packed(call, holes):
    """A call with seqused_k as packed sequences of k.shape[1] keys each.

    With `holes`, for kernels that do not take seqused_k, sequences without queries take the
    unused keys: one follows each sequence. Nothing is copied.
    """
    k, v, length = call.k.flatten(0, 1), call.v.flatten(0, 1), call.k.shape[1]
    if call.cu_q is None:
        batch, rows = call.q.shape[:2]
        call = call.but(
            q=call.q.flatten(0, 1), cu_q=every(batch, rows, call.q.device), max_q=rows
        )
    cu_k = every(call.k.shape[0], length, call.q.device)
    call = call.but(k=k, v=v, cu_k=cu_k, max_k=length)
    if not holes:
        return call
    ends = cu_k[:-1] + call.seqused_k
    cu_q = torch.stack((call.cu_q[:-1], call.cu_q[1:]), 1).flatten()
    cu_k = torch.stack((cu_k[:-1], ends), 1).flatten()
    return call.but(
        cu_q=torch.cat((cu_q, call.cu_q[-1:])),
        cu_k=pad(cu_k, (0, 1), value=k.shape[0]),
        seqused_k=None,
    )


def unpacked(out, lse, before):
    """(out, lse) in the layout of the call before packed(), if that changed it."""
    if before.cu_q is not None or before.seqused_k is None:
        return out, lse
    rows = before.q.shape[:2]
    return out.unflatten(0, rows), lse.unflatten(1, rows).transpose(0, 1)


def fold(call):
    """The call with the query heads of a group as rows, and a function that converts
    (out, lse) back; for sequences of one query that see every key."""
    q, heads = call.q, call.k.shape[-2]
    total, group = q.numel() // (q.shape[-1] * q.shape[-2]), q.shape[-2] // heads
    rows = q.reshape(total, heads, group, q.shape[-1]).transpose(1, 2)
    changes = {"causal": False, "window": (-1, -1), "max_q": call.max_q * group}
    if call.cu_q is None:
        changes.update(q=rows)
    else:
        changes.update(q=rows.flatten(0, 1), cu_q=call.cu_q * group)

    def back(out, lse):
        size = out.shape[-1]
        out = out.reshape(total, group, heads, size).transpose(1, 2)
        out = out.reshape(*q.shape[:-1], size)
        if call.cu_q is None:
            return out, lse.reshape(total, heads * group, 1)
        lse = lse.reshape(heads, total, group).transpose(1, 2)
        return out, lse.reshape(heads * group, total)

    return call.but(**changes), back


def widened(call, one_size):
    """The call with head sizes that are multiples of 8, padded with zeros; with `one_size` the
    same for q, k and v."""
    q, k, v = unit(call.q), unit(call.k), unit(call.v)
    sizes = [q.shape[-1], v.shape[-1]]
    sizes = [max(sizes)] * 2 if one_size else sizes
    sizes = [size + -size % 8 for size in (sizes[0], *sizes)]
    q, k, v = (
        x if x.shape[-1] == size else pad(x, (0, size - x.shape[-1]))
        for x, size in zip((q, k, v), sizes)
    )
    return call.but(q=q, k=k, v=v, scale=call.softmax_scale)


def _padded(x, cu_seqlens, longest):
    """x [total, ...] as [B, longest, ...]; rows past the end of a sequence are another's."""
    rows = cu_seqlens[:-1].long()[:, None] + torch.arange(longest, device=x.device)
    return x[rows.clamp(max=max(x.shape[0] - 1, 0))]


class Dense:
    """A call as [B, S, heads, D] tensors: `call`, the lengths, and out() and lse(), which
    convert results back.

    q_lengths, k_lengths: [B] tensors, or None if every row counts.
    """

    def __init__(self, call):
        call = gather(append(call))
        self.q_lengths, self.k_lengths = None, call.seqused_k
        self.rows = None
        changes = {"seqused_k": None}
        if call.cu_q is not None:
            self.q_lengths = call.cu_q[1:] - call.cu_q[:-1]
            changes["q"] = _padded(call.q, call.cu_q, call.max_q)
            changes["cu_q"] = None
            position = torch.arange(call.q.shape[0], device=call.q.device)
            cu = call.cu_q.to(position.dtype)
            batch = torch.searchsorted(cu, position, right=True) - 1
            batch = batch.clamp(0, max(cu.shape[0] - 2, 0))
            self.rows = batch, (position - cu[batch]).clamp(max=max(call.max_q - 1, 0))
        if call.cu_k is not None:
            if self.k_lengths is None:
                self.k_lengths = call.cu_k[1:] - call.cu_k[:-1]
            changes["k"] = _padded(call.k, call.cu_k, call.max_k)
            changes["v"] = _padded(call.v, call.cu_k, call.max_k)
            changes["cu_k"] = None
        self.call = call.but(**changes)

    def out(self, out):
        """out [B, Sq, H, D] in the layout of the caller's q."""
        return out if self.rows is None else out[self.rows]

    def lse(self, lse):
        """lse [B, H, Sq], or of packed sequences [H, total]."""
        if lse is None or self.rows is None:
            return lse
        batch, row = self.rows
        return lse[batch, :, row].transpose(0, 1)


def visible(dense):
    """(mask, distance) broadcast to [B, 1, Sq, Sk]: the keys that a query sees, None for all;
    and the distance from the diagonal, which ALiBi multiplies."""
    call = dense.call
    q_len, k_len, device = call.q.shape[1], call.k.shape[1], call.q.device
    left, right = call.limits
    j = torch.arange(k_len, device=device)
    i = torch.arange(q_len, device=device)[:, None]
    ends = [
        length if x is None else x.long()[:, None, None, None]
        for x, length in ((dense.k_lengths, k_len), (dense.q_lengths, q_len))
    ]
    i = i + (ends[0] - ends[1])
    mask = None if dense.k_lengths is None else j < ends[0]
    if left >= 0:
        mask = (j >= i - left) if mask is None else mask & (j >= i - left)
    if right >= 0:
        mask = (j <= i + right) if mask is None else mask & (j <= i + right)
    return mask, i - j


def slopes(alibi_slopes):
    """[H] or [B, H] as [1 or B, H, 1, 1] float32."""
    wide = alibi_slopes if alibi_slopes.dim() == 2 else alibi_slopes[None]
    return wide.float()[:, :, None, None]


def seen(call):
    """bool [1 or B, longest q]: which rows see a key; None if all rows of all calls of these
    shapes do. Rows past the end of a sequence may be anything."""
    right = call.limits[1]
    if call.cu_q is None:
        rows, keys = call.q.shape[1], call.k.shape[1]
        if right < 0 or rows <= keys + right:
            return None
        i = torch.arange(rows, device=call.q.device)
        return (i + (keys - rows) + right >= 0)[None]
    rows = (call.cu_q[1:] - call.cu_q[:-1])[:, None]
    keys = call.seqused_k
    keys = (call.cu_k[1:] - call.cu_k[:-1] if keys is None else keys)[:, None]
    i = torch.arange(call.max_q, device=call.q.device)
    found = (keys > 0).expand(-1, call.max_q)
    return found if right < 0 else found & (i + (keys - rows) + right >= 0)


def bias(dense, dtype):
    """(bias [B or 1, H or 1, Sq, Sk] with the mask and ALiBi in it or None, which rows see a
    key or None if all do).

    A row that sees no key gets all of them, because kernels differ in what they return for it.
    """
    call = dense.call
    mask, distance = visible(dense)
    if mask is not None and mask.dim() == 2:
        mask = mask[None, None]
    rows = None if mask is None else mask.any(-1, keepdim=True)
    mask = None if mask is None else mask | ~rows
    if call.alibi_slopes is not None:
        found = -slopes(call.alibi_slopes).to(dtype) * distance.abs()
        return (found if mask is None else found.masked_fill(~mask, -torch.inf)), rows
    if mask is None:
        return None, None
    found = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return found.masked_fill(~mask, -torch.inf), rows
