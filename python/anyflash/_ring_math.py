"""The arithmetic of distributed.py: attention of one block, and the merging of blocks.

    total = Sum(q, value_dim)
    total.add(*forward(*block.parts(q, k, v), block, visible, scale, softcap), block.rows_q)

A block is this process's queries, or half of them, with the keys of one process, or half of
them. The engine computes it on the CPU, torch's FlashAttention kernels on CUDA.
"""

import ctypes

import torch

from . import _attend
from ._lib import engine_scale

_INF = float("inf")


def _rows(x, rows):
    return x if rows is None else x[rows]


class Block:
    """rows_q, rows_k: indices of the rows, None for all; bounds: (cu_seqlens of q, of k,
    longest of q, of k); offsets: int32 [B], how many positions the keys begin before the rows,
    if visibility depends on it; else causal: whether they begin together, causally masked."""

    def __init__(self, rows_q, rows_k, bounds, causal, offsets):
        self.rows_q, self.rows_k = rows_q, rows_k
        self.bounds, self.causal, self.offsets = bounds, causal, offsets
        self.places_q, self.places_k = (
            slice(None) if rows is None else rows for rows in (rows_q, rows_k)
        )

    def parts(self, q, k, v):
        return _rows(q, self.rows_q), _rows(k, self.rows_k), _rows(v, self.rows_k)

    def results(self, dout, out, lse):
        if self.rows_q is None:
            return dout, out, lse
        return dout[self.rows_q], out[self.rows_q], lse[:, self.rows_q].contiguous()


# --- One block


def _engine():
    from . import _torch_ops

    return _torch_ops


def is_engines(q):
    return q.device.type == "cpu"


def check_cuda(q, visible, softcap):
    """Raises NotImplementedError for options that torch's kernels cannot compute in parts."""
    if q.dtype not in (torch.float16, torch.bfloat16) or softcap or visible.is_placed:
        raise NotImplementedError(
            f"on {q.device} only float16 and bfloat16 are supported, without softcap, "
            "window_size and alibi_slopes"
        )


def _options(block, scale, softcap):
    """Options of anyflash::attend, for packed sequences."""
    none = [None] * 5
    return (
        *block.bounds, *none, engine_scale(scale), block.causal, -1, -1, float(softcap), 0.0, 0
    )


def _placed_options(block, visible, scale, softcap):
    """Options of anyflash.attend(), with the distance between rows and keys."""
    names = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
    return {
        **dict(zip(names, block.bounds)),
        "scale": scale,
        "softcap": softcap,
        "window": visible.window,
        "causal_offsets": block.offsets,
        "alibi_slopes": visible.slopes,
        "_threads_of": _engine()._threads,
    }


def forward(q, k, v, block, visible, scale, softcap):
    """(out [total, H, D], lse [H, total])."""
    if not is_engines(q):
        return _forward_torch(q, k, v, block, scale)
    if block.offsets is None:
        return _engine().attend(q, k, v, *_options(block, scale, softcap))
    options = _placed_options(block, visible, scale, softcap)
    return _attend.attend(q, k, v, return_lse=True, **options)


def _forward_torch(q, k, v, block, scale):
    out, lse = torch.ops.aten._flash_attention_forward(
        q, k, v, *block.bounds, 0.0, block.causal, False, scale=scale
    )[:2]
    if lse.dim() != 2:
        raise NotImplementedError(
            f"torch {torch.__version__} pads the logsumexp; on CUDA torch 2.8 is required"
        )
    return out, lse


def backward(q, k, v, dout, out, lse, block, visible, scale, softcap):
    """(dq, dk, dv); lse is that of all keys."""
    if not is_engines(q):
        state = torch.zeros(2, dtype=torch.uint64, device=q.device)
        return torch.ops.aten._flash_attention_backward(
            dout, q, k, v, out, lse, *block.bounds, 0.0, block.causal, state, state, scale=scale
        )
    if block.offsets is None:
        options = _options(block, scale, softcap)
        return torch.ops.anyflash.attend_backward(dout, q, k, v, out, lse, *options)
    options = _placed_options(block, visible, scale, softcap)
    return _attend.attend_backward(dout, q, k, v, out, lse, **options)


def sinks_gradient(dout, out, lse, sinks):
    """float32 [H], for this process's rows."""
    return _engine()._sinks_gradient(dout, out, lse, sinks)


# --- Partial results


def _merge_engine(parts, lses, out, lse):
    """anyflash_merge() of float32 [rows, Dv] and [rows], into out and lse."""
    from . import _lib

    pointers, error = ctypes.c_void_p * len(parts), _lib._Error()
    merge = _lib._library.anyflash_merge
    merge.restype = ctypes.c_int
    status = merge(
        pointers(*[part.data_ptr() for part in parts]),
        pointers(*[part.data_ptr() for part in lses]),
        ctypes.c_int64(len(parts)),
        ctypes.c_int64(lse.numel()),
        ctypes.c_int64(out.shape[-1]),
        ctypes.c_void_p(out.data_ptr()),
        ctypes.c_void_p(lse.data_ptr()),
        ctypes.byref(error),
    )
    if status:
        _lib._fail(status, error)


def _merge_torch(parts, lses, out, lse):
    total = torch.logsumexp(torch.stack(lses), dim=0)
    floor = torch.where(total == -_INF, 0.0, total)
    weighted = [p * torch.exp(l - floor)[..., None] for p, l in zip(parts, lses)]
    torch.sum(torch.stack(weighted), dim=0, out=out)
    lse.copy_(total)


class Sum:
    """The result of the blocks so far: out float32 [total, H, D] and lse [total, H]."""

    def __init__(self, q, value_dim):
        self.out = q.new_zeros((*q.shape[:2], value_dim), dtype=torch.float32)
        self.lse = q.new_full(q.shape[:2], -_INF, dtype=torch.float32)
        self.merge = _merge_engine if q.device.type == "cpu" else _merge_torch

    def add(self, out, lse, rows):
        """Merges the result of a block: of all rows, or of these; lse [H, rows]."""
        new = (out.float().contiguous(), lse.t().contiguous())
        if rows is None:
            self.merge([self.out, new[0]], [self.lse, new[1]], self.out, self.lse)
            return
        old = (self.out[rows], self.lse[rows])
        self.merge([old[0], new[0]], [old[1], new[1]], *old)
        self.out[rows], self.lse[rows] = old

    def add_sinks(self, sinks):
        """Merges logits [H] without a value, which every row sees; once, at the end."""
        before = self.lse
        self.lse = torch.logaddexp(before, sinks)
        self.out *= torch.exp(before - self.lse)[..., None]
