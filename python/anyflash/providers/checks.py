"""The arguments of a call, checked: errors that name the argument as the caller knows it."""

import torch

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _is_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: must be a torch tensor, not {type(tensor).__name__}")


def _check_tensor(tensor, name, rank, like):
    _is_tensor(tensor, name)
    if tensor.dim() != rank:
        raise ValueError(f"{name}: has {tensor.dim()} dimensions, expected {rank}")
    if tensor.dtype not in _FLOATS:
        raise TypeError(f"{name}: element type {tensor.dtype} is not supported")
    if tensor.dtype != like.dtype:
        raise TypeError(f"{name}: has type {tensor.dtype}, q has {like.dtype}")
    if tensor.device != like.device:
        raise ValueError(f"{name}: is on {tensor.device}, q is on {like.device}")


def _check_integers(tensor, name, shape, like):
    if tensor is None:
        return
    _is_tensor(tensor, name)
    if tensor.dtype != torch.int32:
        raise TypeError(f"{name}: must be int32, not {tensor.dtype}")
    if tensor.device != like.device:
        raise ValueError(f"{name}: is on {tensor.device}, q is on {like.device}")
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
        raise ValueError(f"softcap: must not be negative, is {call.softcap}")


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
        raise ValueError(f"{names['k']}: head size {k.shape[-1]}, q has {q.shape[-1]}")
    if q.shape[-1] == 0 or v.shape[-1] == 0:
        raise ValueError(f"{'q' if q.shape[-1] == 0 else names['v']}: the head size is 0")
    if k.shape[-2] == 0 or q.shape[-2] % k.shape[-2]:
        raise ValueError(
            f"{names['k']}: {k.shape[-2]} heads; q has {q.shape[-2]}, no multiple of that"
        )


def _check_batch(call, names):
    """The number of sequences, and all that has an element for each."""
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
        raise ValueError(f"{names['k']}: batch {k.shape[0]}, q has {batch}")
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
        if slopes.device != q.device:
            raise ValueError(f"alibi_slopes: is on {slopes.device}, q is on {q.device}")
    return batch


def _check_append(call, batch):
    q, k_new, v_new = call.q, call.k_new, call.v_new
    if (k_new is None) != (v_new is None):
        raise ValueError("k and v: one is given without the other")
    if k_new is not None:
        _check_tensor(k_new, "k", 4, q)
        _check_tensor(v_new, "v", 4, q)
        if call.seqused_k is None:
            raise ValueError("cache_seqlens: is needed to append k and v")
        for name, new, cache in (("k", k_new, call.k), ("v", v_new, call.v)):
            if new.shape[0] != batch or new.shape[2:] != cache.shape[2:]:
                wanted = (batch, new.shape[1], *cache.shape[2:])
                raise ValueError(f"{name}: shape {tuple(new.shape)}, expected {wanted}")
        if v_new.shape[1] != k_new.shape[1]:
            raise ValueError(f"v: {v_new.shape[1]} rows, k has {k_new.shape[1]}")
    if call.block_table is not None and call.batch_idx is not None:
        raise ValueError("cache_batch_idx: not together with block_table")
    if call.block_table is not None and call.leftpad is not None:
        raise ValueError("cache_leftpad: not together with block_table")
    _check_rotary(call)


def _check_rotary(call):
    cos, sin, q = call.rotary_cos, call.rotary_sin, call.q
    if (cos is None) != (sin is None):
        raise ValueError("rotary_cos and rotary_sin: one is given without the other")
    if cos is None:
        return
    if call.k_new is None:
        raise ValueError("rotary_cos: only together with k and v")
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        _is_tensor(table, name)
        if table.dim() != 2 or table.shape != cos.shape:
            raise ValueError(f"{name}: shape {tuple(table.shape)}, expected (rows, dim / 2)")
        if table.device != q.device:
            raise ValueError(f"{name}: is on {table.device}, q is on {q.device}")
    if 2 * cos.shape[1] > q.shape[-1]:
        raise ValueError(f"rotary_cos: {2 * cos.shape[1]} of {q.shape[-1]} dimensions")


def check(call):
    """Raises TypeError or ValueError that names the first argument that is wrong."""
    names = {"k": "k_cache", "v": "v_cache"} if call.cache else {"k": "k", "v": "v"}
    _check_numbers(call)
    _check_shapes(call, names)
    batch = _check_batch(call, names)
    if call.cache:
        _check_append(call, batch)
