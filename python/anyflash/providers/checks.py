"""Checks of the arguments of a call: errors that name the argument as the caller knows it."""

import torch

from .call import transformed

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _is_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: must be a torch tensor, not {type(tensor).__name__}")


def _check_device(tensor, name, q):
    if tensor.device != q.device:
        raise ValueError(f"{name}: is on {tensor.device}, but q is on {q.device}")


def _check_tensor(tensor, name, rank, like):
    _is_tensor(tensor, name)
    if tensor.dim() != rank:
        raise ValueError(f"{name}: has {tensor.dim()} dimensions, expected {rank}")
    if tensor.dtype not in _FLOATS:
        known = "float32, float16, bfloat16 or float64"
        raise TypeError(f"{name}: element type {tensor.dtype}, expected {known}")
    if tensor.dtype != like.dtype:
        raise TypeError(f"{name}: has type {tensor.dtype}, but q has {like.dtype}")
    _check_device(tensor, name, like)


def _check_integers(tensor, name, shape, like):
    if tensor is None:
        return
    _is_tensor(tensor, name)
    if tensor.dtype != torch.int32:
        raise TypeError(f"{name}: must be int32, not {tensor.dtype}")
    _check_device(tensor, name, like)
    if tensor.dim() != len(shape) or any(
        want not in (None, have) for have, want in zip(tensor.shape, shape)
    ):
        wanted = ", ".join("*" if want is None else str(want) for want in shape)
        raise ValueError(f"{name}: shape {tuple(tensor.shape)}, expected ({wanted})")


def _check_numbers(call):
    window = call.window
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ValueError(f"window_size: must be (left, right), not {window!r}")
    if not all(isinstance(side, (int, torch.SymInt)) for side in window):
        raise TypeError(f"window_size: must be two integers, not {window!r}")
    if not 0.0 <= call.dropout < 1.0:
        raise ValueError(f"dropout_p: must be at least 0 and below 1, not {call.dropout}")
    if call.softcap < 0.0:
        raise ValueError(f"softcap: must not be negative, but is {call.softcap}")


def _check_shapes(call, names):
    q, k, v = call.q, call.k, call.v
    packed_k = call.cu_k is not None
    _is_tensor(q, "q")
    _check_tensor(q, "q", 3 if call.cu_q is not None else 4, q)
    _check_tensor(k, names["k"], 3 if packed_k else 4, q)
    _check_tensor(v, names["v"], 3 if packed_k else 4, q)
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"{names['v']}: shape {tuple(v.shape)} does not agree with "
            f"{names['k']}, {tuple(k.shape)}"
        )
    if k.shape[-1] != q.shape[-1]:
        raise ValueError(f"{names['k']}: head size {k.shape[-1]}, but q has {q.shape[-1]}")
    if q.shape[-1] == 0 or v.shape[-1] == 0:
        raise ValueError(f"{'q' if q.shape[-1] == 0 else names['v']}: the head size is 0")
    if k.shape[-2] == 0 or q.shape[-2] % k.shape[-2]:
        raise ValueError(
            f"{names['k']}: {k.shape[-2]} heads, but q has {q.shape[-2]}, not a multiple of it"
        )


def _check_batch(call, names):
    """Checks every argument with one element per sequence; returns their number."""
    q, k = call.q, call.k
    if call.cu_q is not None:
        _check_integers(call.cu_q, "cu_seqlens_q", (None,), q)
        if call.cu_q.shape[0] < 1:
            raise ValueError("cu_seqlens_q: is empty, expected batch + 1 elements")
        batch = call.cu_q.shape[0] - 1
    else:
        batch = q.shape[0]
    own = call.block_table is None and call.batch_idx is None
    if call.cu_k is not None:
        _check_integers(call.cu_k, "cu_seqlens_k", (batch + 1,), q)
    elif own and k.shape[0] != batch:
        raise ValueError(f"{names['k']}: batch {k.shape[0]}, but q has {batch}")
    _check_integers(call.block_table, "block_table", (batch, None), q)
    if call.cache:
        _check_integers(call.seqused_k, "cache_seqlens", (batch,), q)
    _check_integers(call.batch_idx, "cache_batch_idx", (batch,), q)
    _check_integers(call.leftpad, "cache_leftpad", (batch,), q)
    slopes = call.alibi_slopes
    if slopes is not None:
        _is_tensor(slopes, "alibi_slopes")
        heads = q.shape[-2]
        if tuple(slopes.shape) not in ((heads,), (batch, heads)):
            raise ValueError(
                f"alibi_slopes: shape {tuple(slopes.shape)}, expected ({heads},) "
                f"or ({batch}, {heads})"
            )
        _check_device(slopes, "alibi_slopes", q)
    return batch


def _check_append(call, batch):
    q, k_new, v_new = call.q, call.k_new, call.v_new
    if (k_new is None) != (v_new is None):
        raise ValueError("k and v: one is given without the other")
    if k_new is not None:
        _check_tensor(k_new, "k", 4, q)
        _check_tensor(v_new, "v", 4, q)
        if call.seqused_k is None:
            raise ValueError("cache_seqlens: is required to append k and v")
        for name, new, cache in (("k", k_new, call.k), ("v", v_new, call.v)):
            if new.shape[0] != batch or new.shape[2:] != cache.shape[2:]:
                wanted = (batch, new.shape[1], *cache.shape[2:])
                raise ValueError(f"{name}: shape {tuple(new.shape)}, expected {wanted}")
        if v_new.shape[1] != k_new.shape[1]:
            raise ValueError(f"v: {v_new.shape[1]} rows, but k has {k_new.shape[1]}")
    if call.block_table is not None and call.batch_idx is not None:
        raise ValueError("cache_batch_idx: cannot be used with block_table")
    if call.block_table is not None and call.leftpad is not None:
        raise ValueError("cache_leftpad: cannot be used with block_table")
    _check_rotary(call)


def _check_rotary(call):
    cos, sin, q = call.rotary_cos, call.rotary_sin, call.q
    if (cos is None) != (sin is None):
        raise ValueError("rotary_cos and rotary_sin: one is given without the other")
    if cos is None:
        return
    if call.k_new is None:
        raise ValueError("rotary_cos: requires k and v")
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        _is_tensor(table, name)
        if table.dim() != 2 or table.shape != cos.shape:
            raise ValueError(f"{name}: shape {tuple(table.shape)}, expected (rows, dim / 2)")
        _check_device(table, name, q)
    if 2 * cos.shape[1] > q.shape[-1]:
        raise ValueError(
            f"rotary_cos: rotates {2 * cos.shape[1]} dimensions, but q has {q.shape[-1]}"
        )


def _within(tensor, name, low, high):
    """Raises ValueError if an element is below low or above high (a number or tensor)."""
    wrong = ((tensor < low) | (tensor > high)).nonzero()
    if len(wrong):
        at = tuple(wrong[0].tolist())
        raise ValueError(f"{name}: is {int(tensor[at])} at {list(at)}, out of range")


def _check_starts(starts, longest, total, name, longest_name):
    _within(starts, name, 0, total)
    lengths = starts.diff()
    _within(lengths, f"{name} (lengths)", 0, total)
    if len(lengths) and int(lengths.max()) > longest:
        raise ValueError(
            f"{longest_name}: is {longest}, but a sequence has {int(lengths.max())} rows"
        )


def _check_pages(call):
    size = call.k.shape[1]
    used = call.seqused_k.long()
    if call.k_new is not None:
        used = used + call.k_new.shape[1]
    table = call.block_table
    first = torch.arange(table.shape[1]) * size
    seen = torch.where(first < used[:, None], table, 0)
    _within(seen, "block_table", 0, call.k.shape[0] - 1)


def _check_contents(call):
    """Checks the values of lengths and indices, of tensors on the CPU only."""
    if call.cu_q is not None:
        total = call.q.shape[0]
        _check_starts(call.cu_q, call.max_q, total, "cu_seqlens_q", "max_seqlen_q")
    if call.cu_k is not None:
        total = call.k.shape[0]
        _check_starts(call.cu_k, call.max_k, total, "cu_seqlens_k", "max_seqlen_k")
    rows = call.k.shape[1] if call.cu_k is None else 0
    if call.block_table is not None:
        rows *= call.block_table.shape[1]
    if call.seqused_k is not None:
        new = 0 if call.k_new is None else call.k_new.shape[1]
        name = "cache_seqlens" if call.cache else "cu_seqlens_k (lengths)"
        _within(call.seqused_k, name, 0, rows - new)
        if call.rotary_cos is not None:
            _within(call.seqused_k, f"{name} for rotary_cos", 0, len(call.rotary_cos) - new)
    if call.block_table is not None and call.seqused_k is not None:
        _check_pages(call)
    if call.batch_idx is not None:
        _within(call.batch_idx, "cache_batch_idx", 0, call.k.shape[0] - 1)
    if call.leftpad is not None:
        used = rows if call.seqused_k is None else call.seqused_k
        _within(call.leftpad, "cache_leftpad", 0, used)


def check(call):
    """Raises TypeError or ValueError that names the first argument that is wrong."""
    names = {"k": "k_cache", "v": "v_cache"} if call.cache else {"k": "k", "v": "v"}
    _check_numbers(call)
    _check_shapes(call, names)
    batch = _check_batch(call, names)
    if call.cache:
        _check_append(call, batch)
    if call.q.is_cpu and not torch.compiler.is_compiling() and not transformed():
        _check_contents(call)
