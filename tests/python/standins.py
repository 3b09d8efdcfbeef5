"""Stand-ins for torch's CUDA attention operators on the CPU, so that the providers that call
them can be tested without a GPU.

Argument order, types and defaults are checked by torch's dispatcher against this torch's own
schemas; alignment, padding, layouts and what a kernel leaves undefined follow the operators'
documented contract, and NaN stands where it says nothing. Only the arithmetic is the formula.
"""

import contextlib

import torch

from anyflash import _torch_ops, providers
from anyflash.providers import aten, cudnn, efficient, flash, trial


class Seen:
    """`calls` lists (operator, arguments by name) of each call; `watch` is called by each
    backward."""

    def __init__(self):
        self.calls = []
        self.watch = lambda: None

    def add(self, name, operator, args, kwargs):
        """The arguments by name."""
        names = [a.name for a in operator.default._schema.arguments]
        given = {**dict(zip(names, args)), **kwargs}
        self.calls.append((name, given))
        return given

    def names(self):
        return {name for name, _ in self.calls}


def _scores(given, i, q, k):
    """(scores [H, Sq, Sk] in float64, mask) of sequence i."""
    h, g = q.shape[1], k.shape[1]
    q, k = q.double().transpose(0, 1), k.double().repeat_interleave(h // g, 1).transpose(0, 1)
    scores = q @ k.transpose(1, 2) * given.get("scale")
    rows, keys = scores.shape[1:]
    top = given.get("top_left", False)
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - (0 if top else keys - rows)
    slopes = given.get("alibi_slopes")
    if slopes is not None:
        slopes = slopes[i] if slopes.dim() == 2 else slopes
        scores = scores - slopes.double()[:, None, None] * distance.abs()
    if given.get("bias") is not None:
        scores = scores + given["bias"][i].double()
    left, right = given.get("window_size_left"), given.get("window_size_right")
    if given.get("is_causal") or given.get("custom_mask_type") == 2:
        right = 0
    if given.get("window_size") is not None:
        left = given["window_size"] - 1
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
    used = given.get("seqlen_k") if used is None else used
    if cu_q is None:
        return [(q[i], k[i], v[i], (i, slice(None))) for i in range(q.shape[0])]
    assert cu_q.dtype == cu_k.dtype == torch.int32 and len(cu_q) == len(cu_k)
    assert used is None or (used.dtype == torch.int32 and len(used) == len(cu_q) - 1)
    found = []
    for i in range(len(cu_q) - 1):
        at = slice(int(cu_q[i]), int(cu_q[i + 1]))
        length = int(cu_k[i + 1] - cu_k[i]) if used is None else int(used[i])
        if table is not None:
            assert k.shape[1] % 256 == 0
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
        return torch.full((len(cu_q) - 1, q.shape[-2], given["max_q"]), torch.nan)
    return torch.zeros(q.shape[1], q.shape[0])


def _is_padded():
    return aten.RANDOM_STATE == "philox_seed" or bool(torch.version.hip)


def _flash_forward(seen, *args, **kwargs):
    given = seen.add("flash", torch.ops.aten._flash_attention_forward, args, kwargs)
    q, cu_q = given["query"], given["cum_seq_q"]
    assert q.dtype != torch.float32 and q.shape[-1] % 8 == 0 and not given["return_debug_mask"]
    assert given["key"].shape[-1] == given["value"].shape[-1] == q.shape[-1] <= 256
    assert all(given[x].stride(-1) == 1 for x in ("query", "key", "value"))
    if torch.version.hip:
        for name in ("seqused_k", "block_table", "alibi_slopes"):
            assert given.get(name) is None, f"{name} is not supported on ROCm"
    out, lse = torch.zeros_like(q), _lse_like(given, cu_q, _is_padded())
    sequences = _sequences(given, cu_q, given["cum_seq_k"])
    for i, (at, rows, row_lse) in enumerate(_attend(given, sequences)):
        if torch.version.hip:  # what it gives for a row without keys is not documented
            empty = row_lse == torch.inf
            rows, row_lse = rows.masked_fill(empty.T[..., None], torch.nan), row_lse.clone()
            row_lse[empty] = torch.nan
        if cu_q is None:
            out[i], lse[i] = rows.to(q.dtype), row_lse
            continue
        out[at[0]] = rows.to(q.dtype)
        if lse.dim() == 3:
            lse[i, :, : rows.shape[0]] = row_lse
        else:
            lse[:, at[0]] = row_lse.float()
    seed = torch.full((2,) if aten.RANDOM_STATE == "rng_state" else (), 7, dtype=torch.int64)
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
        parts = (
            ds @ wide[0],
            ds.transpose(1, 2) @ q.double().transpose(0, 1),
            weights.transpose(1, 2) @ dout,
        )
        keys = i if cu_q is None else at[1]
        results[0][rows] = parts[0].transpose(0, 1).to(results[0].dtype)
        for result, part in zip(results[1:], parts[1:]):
            part = part.transpose(0, 1).unflatten(1, (k.shape[1], group)).sum(2)
            result[keys] = part.to(result.dtype)
    return tuple(results)


def _flash_backward(seen, *args, **kwargs):
    operator = torch.ops.aten._flash_attention_backward
    given = seen.add("flash backward", operator, args, kwargs)
    seen.watch()
    random = [n for n in ("philox_seed", "rng_state") if n in given]
    assert random == [aten.RANDOM_STATE] and given[random[0]].flatten()[0] == 7
    lse, cu_q = given["logsumexp"], given["cum_seq_q"]
    assert cu_q is None or (lse.dim() == 3) == _is_padded()

    def rows_of(i, rows, count):
        if cu_q is None:
            return lse[i]
        return lse[i, :, :count] if lse.dim() == 3 else lse[:, rows]

    return _gradients(given, cu_q, given["cum_seq_k"], rows_of)


def _check_efficient(given):
    """What the memory efficient kernel requires of its tensors, forward and backward."""
    q, k, v, bias = (given[x] for x in ("query", "key", "value", "bias"))
    assert q.dim() == k.dim() == v.dim() == 4 and q.dtype == k.dtype == v.dtype
    assert all(x.stride(-1) == 1 and x.shape[-1] % 8 == 0 for x in (q, k, v))
    assert q.shape[2] == k.shape[2] or aten.EFFICIENT_GROUPS
    if q.dtype == torch.bfloat16:
        assert torch.version.hip or flash.capability(q.device) >= (8, 0)
    packed = given["cu_seqlens_q"] is not None
    assert packed == (given["cu_seqlens_k"] is not None)
    assert not packed or (q.shape[0] == 1 and given["max_seqlen_q"] is not None)
    assert given["custom_mask_type"] in (0, 2)
    window = given.get("window_size")
    assert window is None or (window > 0 and given["custom_mask_type"] == 2)
    if torch.version.hip:
        assert window is None and given.get("seqlen_k") is None, "silently ignored on ROCm"
    if bias is not None:
        assert not packed and bias.dtype == q.dtype
        assert bias.shape == (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
        assert bias.stride(-1) == 1 and all(step % 8 == 0 for step in bias.stride()[:-1])
    return packed


def _efficient_forward(seen, *args, **kwargs):
    operator = torch.ops.aten._efficient_attention_forward
    given = seen.add("efficient", operator, args, kwargs)
    packed = _check_efficient(given)
    assert given["compute_log_sumexp"] and (packed or given.get("seqlen_k") is None)
    q, cu_q, flat = given["query"], given["cu_seqlens_q"], given
    if packed:
        flat = {**given, **{x: given[x][0] for x in ("query", "key", "value")}}
    count = len(cu_q) - 1 if packed else q.shape[0]
    longest = given["max_seqlen_q"] if packed else q.shape[1]
    out = q.new_zeros((*q.shape[:-1], given["value"].shape[-1]))
    wide = longest if torch.version.hip else longest + -longest % 32
    lse = torch.full((count, q.shape[2], wide), torch.inf)
    sequences = _sequences(flat, cu_q, given["cu_seqlens_k"])
    for i, (at, rows, row_lse) in enumerate(_attend(given, sequences)):
        empty = row_lse == torch.inf  # of rows without keys the kernel promises nothing
        rows = rows.masked_fill(empty.T[..., None], torch.nan)
        lse[i, :, : rows.shape[0]] = torch.where(empty, torch.nan, row_lse)
        if packed:
            out[0, at[0]] = rows.to(q.dtype)
        else:
            out[i] = rows.to(q.dtype)
    keys = given["max_seqlen_k"] if packed else given["key"].shape[1]
    return out, lse, torch.tensor(7), torch.tensor(9), longest, keys


def _efficient_backward(seen, *args, **kwargs):
    operator = torch.ops.aten._efficient_attention_backward
    given = seen.add("efficient backward", operator, args, kwargs)
    seen.watch()
    packed = _check_efficient(given)
    assert given["philox_seed"] == 7 and given["philox_offset"] == 9
    given = {**given, "grad_out": given["grad_out_"]}
    lse, cu_q = given["logsumexp"], given["cu_seqlens_q"]
    if packed:
        names = ("query", "key", "value", "out", "grad_out")
        given = {**given, **{x: given[x][0] for x in names}}

    def rows_of(i, rows, count):
        assert torch.isposinf(lse[i, :, count:]).all(), "padding of the logsumexp"
        return lse[i, :, :count]

    found = _gradients(given, cu_q, given["cu_seqlens_k"], rows_of)
    return (*([x[None] for x in found] if packed else found), torch.empty(0))


def _check_cudnn(given, size_of):
    for name in ("query", "key", "value"):
        x = given[name]
        assert x.dtype in (torch.float16, torch.bfloat16) and x.shape[-1] % 8 == 0
        assert x.shape[-1] <= 128 and x.stride(-1) == 1 and x.storage_offset() % 8 == 0
        assert all(step > 0 and step % 8 == 0 for step in x.stride()[:-1])
    assert given.get("attn_bias") is None and given.get("dropout_p", 0.0) == 0.0


def _cudnn_forward(seen, *args, **kwargs):
    operator = torch.ops.aten._scaled_dot_product_cudnn_attention
    given = seen.add("cudnn", operator, args, kwargs)
    _check_cudnn(given, 4)
    assert given["compute_log_sumexp"]
    flat = {**given, **{x: given[x].transpose(1, 2) for x in ("query", "key", "value")}}
    q = flat["query"]
    out = q.new_zeros((*q.shape[:-1], given["value"].shape[-1]))
    lse = torch.zeros(*given["query"].shape[:-1], 1)
    for i, (at, rows, row_lse) in enumerate(
        _attend({**flat, "top_left": True}, _sequences(flat, None, None))
    ):
        out[i], lse[i, ..., 0] = rows.to(q.dtype), row_lse
    empty, one = q.new_empty(0), torch.tensor(7)
    sizes = q.shape[1], flat["key"].shape[1]
    return out.transpose(1, 2), lse, empty, empty, *sizes, one, torch.tensor(9), empty


def _cudnn_backward(seen, *args, **kwargs):
    operator = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
    given = seen.add("cudnn backward", operator, args, kwargs)
    _check_cudnn(given, 4)
    lse = given["logsumexp"]
    assert given["philox_seed"] == 7 and lse.shape == (*given["query"].shape[:-1], 1)
    names = ("query", "key", "value", "out", "grad_out")
    flat = {**given, **{x: given[x].transpose(1, 2) for x in names}, "top_left": True}
    found = _gradients(flat, None, None, lambda i, rows, count: lse[i, ..., 0])
    return tuple(x.transpose(1, 2) for x in found)


def _packed_cudnn_forward(seen, *args, **kwargs):
    given = seen.add("packed cudnn", torch.ops.aten._cudnn_attention_forward, args, kwargs)
    _check_cudnn(given, 3)
    assert given["compute_log_sumexp"] and given["query"].dim() == 3
    q, cu_q = given["query"], given["cum_seq_q"]
    out = q.new_zeros((*q.shape[:-1], given["value"].shape[-1]))
    lse = torch.zeros(q.shape[1], q.shape[0])
    sequences = _sequences(given, cu_q, given["cum_seq_k"])
    for at, rows, row_lse in _attend({**given, "top_left": True}, sequences):
        empty = row_lse == torch.inf
        out[at[0]] = rows.masked_fill(empty.T[..., None], torch.nan).to(q.dtype)
        lse[:, at[0]] = torch.where(empty, torch.nan, row_lse).float()
    empty, one = q.new_empty(0), torch.tensor(7)
    sizes = given["max_q"], given["max_k"]
    return out, lse, empty, empty, *sizes, one, torch.tensor(9), empty


def _packed_cudnn_backward(seen, *args, **kwargs):
    operator = torch.ops.aten._cudnn_attention_backward
    given = seen.add("packed cudnn backward", operator, args, kwargs)
    _check_cudnn(given, 3)
    lse, given = given["logsumexp"], {**given, "top_left": True}
    return _gradients(
        given, given["cum_seq_q"], given["cum_seq_k"], lambda i, rows, count: lse[:, rows]
    )


_OPERATORS = {
    "_flash_attention_forward": _flash_forward,
    "_flash_attention_backward": _flash_backward,
    "_efficient_attention_forward": _efficient_forward,
    "_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention": _cudnn_forward,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "_cudnn_attention_forward": _packed_cudnn_forward,
    "_cudnn_attention_backward": _packed_cudnn_backward,
}


def as_on_a_gpu(monkeypatch):
    """CPU tensors go to the providers of a GPU, in their order."""
    of_cuda = providers.names_of("cuda")
    monkeypatch.setattr(providers, "_by_device", {})
    monkeypatch.setattr(providers, "_OF_DEVICE", {**providers._OF_DEVICE, "cpu": of_cuda})
    providers.prepare()


@contextlib.contextmanager
def torchs_kernels(monkeypatch, capability=(8, 0), provider="torch_flash", rocm=None):
    """Replaces torch's CUDA kernels with stand-ins for CPU tensors; gives their recorder.

    `capability`: of the GPU; `provider`: the one to force; `rocm`: a version of ROCm, as if
    this torch were built for it.
    """
    seen, library = Seen(), torch.library.Library("aten", "IMPL")
    for name, kernel in _OPERATORS.items():
        if hasattr(torch.ops.aten, name):
            library.impl(name, lambda *a, _k=kernel, **o: _k(seen, *a, **o), "CPU")
    for module in (flash, efficient, cudnn):
        monkeypatch.setattr(module, "DEVICES", ("cuda", "cpu"))
        monkeypatch.setattr(module, "capability", lambda device: capability)
    monkeypatch.setattr(cudnn, "version", lambda: 92600)
    monkeypatch.setattr(trial, "_known", {})
    monkeypatch.setattr(torch.version, "hip", rocm)
    if rocm is not None:
        monkeypatch.setattr(aten, "TAKES_PAGES", False)
        monkeypatch.setattr(aten, "EFFICIENT_GROUPS", False)
    # force() fills it; a test may have replaced the lists of providers that it reads.
    monkeypatch.setattr(providers, "_by_device", {})
    before = providers.force(provider)
    try:
        yield seen
    finally:
        providers.force(before)
        library._destroy()


def _engine_options(query, cu_q, cu_k, max_q, max_k, causal, scale, left, right):
    """Options of anyflash::attend, without dropout."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    window = (-1 if side is None else side for side in (left, right))
    return cu_q, cu_k, max_q, max_k, *[None] * 5, scale, causal, *window, 0.0, 0.0, 0


def _engine_forward(
    q, k, v, cu_q, cu_k, max_q, max_k, dropout, causal, debug, *,
    scale=None, window_size_left=None, window_size_right=None, **more,
):  # fmt: skip
    assert dropout == 0.0 and not debug and not any(more.values())
    bounds, window = (cu_q, cu_k, max_q, max_k), (window_size_left, window_size_right)
    with torch.no_grad():
        out, lse = _torch_ops.attend(
            q, k, v, *_engine_options(q, *bounds, causal, scale, *window)
        )
    state = torch.zeros(2, dtype=torch.uint64)
    return out, lse, state, torch.zeros((), dtype=torch.uint64), q.new_empty(0)


def _engine_backward(
    dout, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, dropout, causal, state, unused, *,
    scale=None, window_size_left=None, window_size_right=None,
):  # fmt: skip
    assert dropout == 0.0 and state.dtype == torch.uint64 and state.shape == (2,)
    bounds, window = (cu_q, cu_k, max_q, max_k), (window_size_left, window_size_right)
    options = _engine_options(q, *bounds, causal, scale, *window)
    with torch.no_grad():
        return torch.ops.anyflash.attend_backward(dout, q, k, v, out, lse, *options)


@contextlib.contextmanager
def flash_by_engine():
    """torch's FlashAttention operators compute CPU tensors, too, with the engine."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", _engine_forward, "CPU")
    library.impl("_flash_attention_backward", _engine_backward, "CPU")
    try:
        yield
    finally:
        library._destroy()
