"""Attention over a sequence that is split over the processes of torch.distributed.

    from anyflash import distributed as ring
    q, k, v = (ring.shard(x) for x in (q, k, v))        # [B, S, H, D] -> [B, S / W, H, D]
    out = ring.ring_attention(q, k, v, causal=True)     # with gradients
    out = ring.unshard(out)

W processes stand in a ring. Keys and values travel round it while each process computes
with those it has, and partial results are merged by their logsumexps; in the backward the
gradients of k and v travel with them. CPU tensors are computed by the engine, CUDA tensors
by torch's FlashAttention kernels. With `balanced` (the default) process r has parts r and
2W - 1 - r of the 2W parts of each sequence, so that causal work is the same for all; the
same choice must be made everywhere. A process that does not call what the others call
lets them wait until the group's time limit.

Equal to the attention of one process up to rounding: in float32 within 2e-6 of the largest
value, in float16 2.5e-3, in bfloat16 2e-2, where each of the W partial results is rounded
once more. The same bits in every run with the same number of processes.
"""

import ctypes
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = [
    "positions",
    "ring_attention",
    "ring_attention_varlen",
    "shard",
    "shard_varlen",
    "unshard",
    "unshard_varlen",
]

_INF = float("inf")


# --- Which rows a process has


def _part_rows(length, rank, world, balanced):
    """Numbers of a sequence's rows that `rank` has, in their order there."""
    parts = 2 * world if balanced else world
    if length % parts:
        raise ValueError(
            f"a sequence of {length} rows does not divide into {parts} parts "
            f"({world} processes{', balanced' if balanced else ''}): pad it"
        )
    size = length // parts
    rows = torch.arange(length).view(parts, size)
    mine = (rank, 2 * world - 1 - rank) if balanced else (rank,)
    return rows[list(mine)].flatten()


def _packed_rows(cu_seqlens, rank, world, balanced):
    bounds = cu_seqlens.tolist()
    return torch.cat(
        [
            start + _part_rows(end - start, rank, world, balanced)
            for start, end in zip(bounds, bounds[1:])
        ]
    )


def positions(length: int, group=None, balanced: bool = True) -> Tensor:
    """int64 [length / W]: the places in the whole sequence of this process's rows."""
    return _part_rows(length, dist.get_rank(group), dist.get_world_size(group), balanced)


def shard(x: Tensor, dim: int = 1, group=None, balanced: bool = True) -> Tensor:
    """This process's rows of x along `dim`; x is the whole, the same in all processes.

    Differentiable: the gradient of the whole is zero in others' rows. Raises ValueError for
    a length that does not divide by 2W (W unless balanced).
    """
    rows = positions(x.shape[dim], group, balanced)
    return x.index_select(dim, rows.to(x.device))


def shard_varlen(x: Tensor, cu_seqlens: Tensor, group=None, balanced: bool = True) -> Tensor:
    """shard() of each sequence of packed rows x [total, ...]; cu_seqlens int32 [B + 1]."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    return x[_packed_rows(cu_seqlens, rank, world, balanced).to(x.device)]


def _gathered(x, dim, rows, group):
    x = x.detach().contiguous()
    parts = [torch.empty_like(x) for _ in rows]
    dist.all_gather(parts, x, group=group)
    order = torch.argsort(torch.cat(rows)).to(x.device)
    return torch.cat(parts, dim).index_select(dim, order)


def unshard(x: Tensor, dim: int = 1, group=None, balanced: bool = True) -> Tensor:
    """The whole of which each process has shard(); the same in all, without a gradient."""
    world = dist.get_world_size(group)
    length = x.shape[dim] * world
    rows = [_part_rows(length, rank, world, balanced) for rank in range(world)]
    return _gathered(x, dim, rows, group)


def unshard_varlen(x: Tensor, cu_seqlens: Tensor, group=None, balanced: bool = True) -> Tensor:
    """The whole of which each process has shard_varlen(), without a gradient."""
    world = dist.get_world_size(group)
    rows = [_packed_rows(cu_seqlens, rank, world, balanced) for rank in range(world)]
    return _gathered(x, 0, rows, group)


# --- One block: this process's queries with the keys of one process


def _engine():
    from . import _torch_ops

    return _torch_ops


def _options(bounds, scale, causal, softcap):
    """The engine's, for packed sequences that begin at bounds = (cu_q, cu_k, longest two)."""
    return (
        *bounds,
        *[None] * 5,
        float(scale),
        bool(causal),
        -1,
        -1,
        float(softcap),
        0.0,
        0,
    )


def _check_cuda(q, softcap):
    if q.dtype not in (torch.float16, torch.bfloat16) or softcap:
        raise NotImplementedError(
            f"on {q.device} float16 and bfloat16 are computed, without softcap"
        )


def _is_engines(q):
    return q.device.type == "cpu"


def _block_forward(q, k, v, bounds, scale, causal, softcap):
    """(out [total, H, D], lse [H, total])."""
    if _is_engines(q):
        return _engine().attend(q, k, v, *_options(bounds, scale, causal, softcap))
    out, lse = torch.ops.aten._flash_attention_forward(
        q, k, v, *bounds, 0.0, causal, False, scale=scale
    )[:2]
    if lse.dim() != 2:
        raise NotImplementedError(
            f"torch {torch.__version__} pads the logsumexp: on CUDA 2.8 is needed"
        )
    return out, lse


def _block_backward(dout, q, k, v, out, lse, bounds, scale, causal, softcap):
    """(dq, dk, dv), the lse being that of all keys."""
    if _is_engines(q):
        options = _options(bounds, scale, causal, softcap)
        return torch.ops.anyflash.attend_backward(dout, q, k, v, out, lse, *options)
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    return torch.ops.aten._flash_attention_backward(
        dout, q, k, v, out, lse, *bounds, 0.0, causal, state, state, scale=scale
    )


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


class _Sum:
    """What is known of the rows so far: out float32 [total, H, D] and lse [total, H]."""

    def __init__(self, q, value_dim):
        self.out = q.new_zeros((*q.shape[:2], value_dim), dtype=torch.float32)
        self.lse = q.new_full(q.shape[:2], -_INF, dtype=torch.float32)
        self.merge = _merge_engine if q.device.type == "cpu" else _merge_torch

    def add(self, out, lse, rows):
        """A partial result of all rows, or of some; lse [H, rows]."""
        new = (out.float().contiguous(), lse.t().contiguous())
        if rows is None:
            self.merge([self.out, new[0]], [self.lse, new[1]], self.out, self.lse)
            return
        old = (self.out[rows], self.lse[rows])
        self.merge([old[0], new[0]], [old[1], new[1]], *old)
        self.out[rows], self.lse[rows] = old


# --- Which blocks there are


class _Plan:
    """The sequences as each process has them, and what it does with another's keys.

    starts: int32 [B + 1] of this process's rows, longest: rows of the longest sequence.
    """

    def __init__(self, starts, longest, group, causal, balanced):
        self.group, self.causal, self.balanced = group, causal, balanced
        self.world, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.starts, self.longest = starts, longest
        self.first = self.second = None
        if causal and balanced and self.world > 1:
            self._halve(starts)

    def _halve(self, starts):
        """Row numbers of the first and the second half of each sequence."""
        row = torch.arange(int(starts[-1]), device=starts.device)
        sequence = torch.searchsorted(starts[1:].contiguous(), row, right=True)
        is_second = row - starts[sequence] >= (starts[1:] - starts[:-1])[sequence] // 2
        self.first, self.second = (~is_second).nonzero()[:, 0], is_second.nonzero()[:, 0]
        self.half_starts = starts // 2

    def block(self, owner):
        """(rows of q, rows of k, is causal) against the keys of `owner`: rows None for all;
        or None where none of its keys is visible."""
        if not self.causal:
            return None, None, False
        if owner == self.rank:
            return None, None, True
        if not self.balanced:
            return (None, None, False) if owner < self.rank else None
        # Its first part precedes both of ours, or just our second; its second part follows.
        return (None, self.first, False) if owner < self.rank else (self.second, None, False)

    def bounds(self, rows_q, rows_k):
        """(cu_seqlens of q, of k, longest of q, of k) of a block."""
        whole, half = (self.starts, self.longest), None
        if self.first is not None:
            half = (self.half_starts, self.longest // 2)
        (cu_q, most_q), (cu_k, most_k) = (
            whole if rows is None else half for rows in (rows_q, rows_k)
        )
        return cu_q, cu_k, most_q, most_k


def _rows(x, rows):
    return x if rows is None else x[rows]


# --- The ring


class _Ring:
    """Sends a buffer to the next process while the one of the process before arrives.

    What travels at the same time has different tags.
    """

    def __init__(self, group, tag):
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        self.group, self.tag = group, tag
        self.next, self.before = (rank + 1) % world, (rank - 1) % world
        if group is not None:
            self.next = dist.get_global_rank(group, self.next)
            self.before = dist.get_global_rank(group, self.before)

    def start(self, buffer):
        """What wait() turns into the buffer of the process before."""
        arriving = torch.empty_like(buffer)
        operations = [
            dist.P2POp(dist.isend, buffer, self.next, self.group, self.tag),
            dist.P2POp(dist.irecv, arriving, self.before, self.group, self.tag),
        ]
        return dist.batch_isend_irecv(operations), arriving, buffer

    @staticmethod
    def wait(started):
        works, arriving, _ = started
        for work in works:
            work.wait()
        return arriving


def _pack(*tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _unpack(buffer, *models):
    parts = buffer.split([model.numel() for model in models])
    return [part.view(model.shape) for part, model in zip(parts, models)]


def _travel(plan, k, v):
    """(owner, its k, its v) for each process, our own first; what comes next travels while
    the caller computes."""
    ring = _Ring(plan.group, tag=1)
    buffer = _pack(k, v)
    for step in range(plan.world):
        under_way = ring.start(buffer) if step + 1 < plan.world else None
        yield ((plan.rank - step) % plan.world, *_unpack(buffer, k, v))
        if under_way is not None:
            buffer = ring.wait(under_way)


class _RingAttention(torch.autograd.Function):
    """Packed q, k [total, H, D], v [total, H, Dv]; out in q's type and lse [H, total]."""

    @staticmethod
    def forward(ctx, q, k, v, plan, scale, softcap):
        total = _Sum(q, v.shape[-1])
        for owner, k_there, v_there in _travel(plan, k, v):
            block = plan.block(owner)
            if block is None:
                continue
            rows_q, rows_k, causal = block
            out, lse = _block_forward(
                _rows(q, rows_q),
                _rows(k_there, rows_k),
                _rows(v_there, rows_k),
                plan.bounds(rows_q, rows_k),
                scale,
                causal,
                softcap,
            )
            total.add(out, lse, rows_q)
        out, lse = total.out.to(q.dtype), total.lse.t().contiguous()
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.plan, ctx.scale, ctx.softcap = plan, scale, softcap
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        plan, dout = ctx.plan, dout.contiguous()
        ring = _Ring(plan.group, tag=2)
        dq = torch.zeros_like(q, dtype=torch.float32)
        # The gradients of the keys that are here now, so far; they travel behind the keys.
        sums = torch.zeros(k.numel() + v.numel(), dtype=torch.float32, device=k.device)
        under_way = None
        for owner, k_there, v_there in _travel(plan, k, v):
            block, new = plan.block(owner), None
            if block is not None:
                rows_q, rows_k, causal = block
                new = _block_backward(
                    _rows(dout, rows_q),
                    _rows(q, rows_q),
                    _rows(k_there, rows_k),
                    _rows(v_there, rows_k),
                    _rows(out, rows_q),
                    lse if rows_q is None else lse[:, rows_q].contiguous(),
                    plan.bounds(rows_q, rows_k),
                    ctx.scale,
                    causal,
                    ctx.softcap,
                )
            if under_way is not None:
                sums = ring.wait(under_way)
            if new is not None:
                places = slice(None) if rows_q is None else rows_q
                dq[places] += new[0]
                places = slice(None) if rows_k is None else rows_k
                for gathered, part in zip(_unpack(sums, k, v), new[1:]):
                    gathered[places] += part
            if plan.world > 1:
                under_way = ring.start(sums)
        if under_way is not None:
            sums = ring.wait(under_way)
        dk, dv = _unpack(sums, k, v)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None


def _check(q, k, v, dims):
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != dims:
            raise ValueError(f"{name}: has {tensor.dim()} dimensions, expected {dims}")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(f"{name}: is {tensor.dtype} on {tensor.device}, not as q")
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"q, k and v: shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)} "
            "do not agree: each process has the same rows of all three"
        )


def _attend(q, k, v, plan, softmax_scale, softcap):
    if not _is_engines(q):
        _check_cuda(q, softcap)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    q, k, v = (x.contiguous() for x in (q, k, v))
    return _RingAttention.apply(q, k, v, plan, scale, softcap)


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    softmax_scale: Optional[float] = None,
    softcap: float = 0.0,
    group=None,
    balanced: bool = True,
    return_lse: bool = False,
):
    """Attention of all processes' rows: q [B, S / W, H, D], k, v [B, S / W, G, D] here.

    Rows are those of shard(x, group=group, balanced=balanced). Without causal the order
    does not matter. Returns out [B, S / W, H, D], this process's rows, and with return_lse
    (out, lse float32 [B, H, S / W]), of which out is differentiable. Every process of the
    group must call it with tensors of the same shape and type.
    """
    _check(q, k, v, 4)
    batch, rows = q.shape[:2]
    if causal and balanced and rows % 2:
        raise ValueError(f"q: {rows} rows are no two parts of the same size; see shard()")
    starts = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * rows
    plan = _Plan(starts, rows, group, causal, balanced)
    flat = (x.flatten(0, 1) for x in (q, k, v))
    out, lse = _attend(*flat, plan, softmax_scale, softcap)
    out = out.unflatten(0, (batch, rows))
    return (out, lse.unflatten(1, (batch, rows)).transpose(0, 1)) if return_lse else out


def ring_attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    *,
    causal: bool = False,
    softmax_scale: Optional[float] = None,
    softcap: float = 0.0,
    group=None,
    balanced: bool = True,
    return_lse: bool = False,
):
    """ring_attention() within packed sequences: q [total / W, H, D], k, v [total / W, G, D].

    cu_seqlens int32 [B + 1] and max_seqlen are those of the whole sequences, the same in all
    processes; rows are those of shard_varlen(x, cu_seqlens, ...). Returns out, and with
    return_lse (out, lse float32 [H, total / W]).
    """
    _check(q, k, v, 3)
    world = dist.get_world_size(group)
    parts = 2 * world if balanced else world
    lengths = cu_seqlens[1:] - cu_seqlens[:-1]
    if bool((lengths % parts).any()) or int(cu_seqlens[-1]) != q.shape[0] * world:
        raise ValueError(
            f"cu_seqlens: sequences must divide into {parts} parts and end at "
            f"{q.shape[0] * world}, the rows of all processes"
        )
    starts = (cu_seqlens // world).to(torch.int32).contiguous()
    plan = _Plan(starts, max_seqlen // world, group, causal, balanced)
    out, lse = _attend(q, k, v, plan, softmax_scale, softcap)
    return (out, lse) if return_lse else out
