"""Stand-ins for torch's CUDA attention operators on the CPU, so that the provider that calls
them can be tested without a GPU. Argument order, defaults, layouts, logsumexp and gradients
follow this torch's own schemas; only the arithmetic is the plain formula.
"""

import contextlib

import torch

from anyflash import _torch_library, providers
from anyflash.providers import aten, selftest, torch_kernels


class Seen:
    """`calls` lists (operator, arguments by name) of each call; `watch` is called by each
    backward of the flash operator."""

    def __init__(self):
        self.calls = []
        self.watch = lambda: None


def _named(operator, args, kwargs):
    names = [a.name for a in operator._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}


def _scores(given, i, q, k):
    """(scores [H, Sq, Sk] in float64, mask) of sequence i."""
    h, g = q.shape[1], k.shape[1]
    q, k = q.double().transpose(0, 1), k.double().repeat_interleave(h // g, 1).transpose(0, 1)
    scores = q @ k.transpose(1, 2) * given.get("scale")
    rows, keys = scores.shape[1:]
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
    slopes = given.get("alibi_slopes")
    if slopes is not None:
        slopes = slopes[i] if slopes.dim() == 2 else slopes
        scores = scores - slopes.double()[:, None, None] * distance.abs()
    left, right = given.get("window_size_left"), given.get("window_size_right")
    if given.get("is_causal") or given.get("custom_mask_type") == 2:
        right = 0
    mask = torch.ones(rows, keys, dtype=torch.bool)
    if left is not None and left >= 0:
        mask &= distance >= -left
    if right is not None and right >= 0:
        mask &= distance <= right
    return scores, mask


def _sequences(given, cu_q, cu_k):
    """(q rows, k tensor, v tensor, indices of k's rows) of each sequence."""
    q, k, v = given["query"], given["key"], given["value"]
    used, table = given.get("seqused_k"), given.get("block_table")
    if cu_q is None:
        return [(q[i], k[i], v[i], (i, slice(None))) for i in range(q.shape[0])]
    assert cu_q.dtype == cu_k.dtype == torch.int32 and len(cu_q) == len(cu_k)
    found = []
    for i in range(len(cu_q) - 1):
        at = slice(int(cu_q[i]), int(cu_q[i + 1]))
        length = int(cu_k[i + 1] - cu_k[i]) if used is None else int(used[i])
        if table is not None:
            assert k.shape[1] % 256 == 0 and used.dtype == torch.int32
            keys = [x[table[i].long().clamp(0, len(x) - 1)].flatten(0, 1) for x in (k, v)]
            keys, rows = [x[:length] for x in keys], None
        else:
            rows = slice(int(cu_k[i]), int(cu_k[i]) + length)
            keys = [k[rows], v[rows]]
        found.append((q[at], *keys, (at, rows)))
    return found


def _attend(given, sequences):
    for i, (q, k, v, at) in enumerate(sequences):
        scores, mask = _scores(given, i, q, k)
        scores = scores.masked_fill(~mask, -torch.inf)
        lse = torch.logsumexp(scores, -1)
        weights = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse)[..., None])
        values = v.double().repeat_interleave(q.shape[1] // v.shape[1], 1).transpose(0, 1)
        out = (weights @ values).transpose(0, 1)
        yield at, out, torch.where(lse == -torch.inf, torch.inf, lse)


def _lse_like(given, cu_q, padded):
    q = given["query"]
    if cu_q is None:
        return torch.zeros(q.shape[0], q.shape[2], q.shape[1])
    if padded:
        longest = given.get("max_q", given.get("max_seqlen_q"))
        return torch.full((len(cu_q) - 1, q.shape[-2], longest), torch.nan)
    return torch.zeros(q.shape[1], q.shape[0])


def _flash_forward(seen, *args, **kwargs):
    operator = torch.ops.aten._flash_attention_forward.default
    given = _named(operator, args, kwargs)
    seen.calls.append(("flash", given))
    q, cu_q = given["query"], given["cum_seq_q"]
    assert q.dtype != torch.float32 and q.shape[-1] % 8 == 0 and not given["return_debug_mask"]
    assert given["key"].shape[-1] == given["value"].shape[-1] == q.shape[-1]
    padded = aten.RANDOM_STATE == "philox_seed"
    out, lse = torch.zeros_like(q), _lse_like(given, cu_q, padded)
    sequences = _sequences(given, cu_q, given["cum_seq_k"])
    for i, (at, rows, row_lse) in enumerate(_attend(given, sequences)):
        if cu_q is None:
            out[i], lse[i] = rows.to(q.dtype), row_lse
            continue
        out[at[0]] = rows.to(q.dtype)
        if padded:
            lse[i, :, : rows.shape[0]] = row_lse
        else:
            lse[:, at[0]] = row_lse.float()
    seed = torch.full((2,) if not padded else (), 7, dtype=torch.int64)
    return out, lse, seed, torch.tensor(9), q.new_empty(0)


def _gradients(given, cu_q, cu_k, lse_rows):
    """(dq, dk, dv) by FlashAttention's own formula, from the given out and lse."""
    results = [torch.zeros_like(given[x]) for x in ("query", "key", "value")]
    for i, (q, k, v, at) in enumerate(_sequences(given, cu_q, cu_k)):
        scores, mask = _scores(given, i, q, k)
        rows = i if cu_q is None else at[0]
        group = q.shape[1] // k.shape[1]
        lse = lse_rows(i, rows, q.shape[0]).double()[..., None]
        weights = torch.where(mask, torch.exp(scores - lse), 0.0)
        dout, out = (given[x][rows].double().transpose(0, 1) for x in ("grad_out", "out"))
        wide = [x.double().repeat_interleave(group, 1).transpose(0, 1) for x in (k, v)]
        dp = dout @ wide[1].transpose(1, 2)
        ds = weights * (dp - (dout * out).sum(-1, keepdim=True)) * given["scale"]
        parts = (ds @ wide[0], ds.transpose(1, 2) @ q.double().transpose(0, 1),
                 weights.transpose(1, 2) @ dout)
        keys = i if cu_q is None else at[1]
        results[0][rows] = parts[0].transpose(0, 1).to(results[0].dtype)
        for result, part in zip(results[1:], parts[1:]):
            part = part.transpose(0, 1).unflatten(1, (k.shape[1], group)).sum(2)
            result[keys] = part.to(result.dtype)
    return tuple(results)


def _flash_backward(seen, *args, **kwargs):
    given = _named(torch.ops.aten._flash_attention_backward.default, args, kwargs)
    seen.calls.append(("flash backward", given))
    seen.watch()
    random = [n for n in ("philox_seed", "rng_state") if n in given]
    assert random == [aten.RANDOM_STATE] and given[random[0]].flatten()[0] == 7
    lse, cu_q = given["logsumexp"], given["cum_seq_q"]

    def rows_of(i, rows, count):
        if cu_q is None:
            return lse[i]
        return lse[i, :, :count] if lse.dim() == 3 else lse[:, rows]

    return _gradients(given, cu_q, given["cum_seq_k"], rows_of)


def _efficient_forward(seen, *args, **kwargs):
    given = _named(torch.ops.aten._efficient_attention_forward.default, args, kwargs)
    seen.calls.append(("efficient", given))
    q, cu_q = given["query"], given["cu_seqlens_q"]
    assert q.shape[2] == given["key"].shape[2] and given["compute_log_sumexp"]
    flat = given
    if cu_q is not None:
        flat = {**given, **{x: given[x][0] for x in ("query", "key", "value")}}
    count = q.shape[0] if cu_q is None else len(cu_q) - 1
    longest = q.shape[1] if cu_q is None else given["max_seqlen_q"]
    out = q.new_zeros((*q.shape[:-1], given["value"].shape[-1]))
    lse = torch.full((count, q.shape[2], longest + -longest % 32), torch.inf)
    sequences = _sequences(flat, cu_q, given["cu_seqlens_k"])
    for i, (at, rows, row_lse) in enumerate(_attend(given, sequences)):
        lse[i, :, : rows.shape[0]] = row_lse
        if cu_q is None:
            out[i] = rows.to(q.dtype)
        else:
            out[0, at[0]] = rows.to(q.dtype)
    k = given["key"].shape[1] if cu_q is None else given["max_seqlen_k"]
    return out, lse, torch.tensor(7), torch.tensor(9), longest, k


def _efficient_backward(seen, *args, **kwargs):
    operator = torch.ops.aten._efficient_attention_backward.default
    given = _named(operator, args, kwargs)
    seen.calls.append(("efficient backward", given))
    given["grad_out"] = given["grad_out_"]
    lse, cu_q = given["logsumexp"], given["cu_seqlens_q"]
    if cu_q is not None:
        names = ("query", "key", "value", "out", "grad_out")
        given = {**given, **{x: given[x][0] for x in names}}
    found = _gradients(
        given, cu_q, given["cu_seqlens_k"], lambda i, rows, count: lse[i, :, :count]
    )
    if cu_q is not None:
        found = tuple(x[None] for x in found)
    return (*found, torch.empty(0))


@contextlib.contextmanager
def torchs_kernels(monkeypatch, capability=(8, 0)):
    """Replaces torch's CUDA kernels with stand-ins for CPU tensors; gives their recorder."""
    _torch_library.withdraw()  # torch.library accepts only one Python kernel for an operator
    seen, library = Seen(), torch.library.Library("aten", "IMPL")
    for name, kernel in (
        ("_flash_attention_forward", _flash_forward),
        ("_flash_attention_backward", _flash_backward),
        ("_efficient_attention_forward", _efficient_forward),
        ("_efficient_attention_backward", _efficient_backward),
    ):
        library.impl(name, lambda *a, _k=kernel, **o: _k(seen, *a, **o), "CPU")
    monkeypatch.setattr(torch_kernels, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(torch_kernels, "_capability", lambda device: capability)
    monkeypatch.setattr(selftest, "_known", {})
    before = providers.force("torch")
    try:
        yield seen
    finally:
        providers.force(before)
        library._destroy()
