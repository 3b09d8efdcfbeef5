"""Attention over a sequence that is split over the processes of torch.distributed.

    from anyflash import distributed as ring
    q, k, v = (ring.shard(x) for x in (q, k, v))        # [B, S, H, D] -> [B, S / W, H, D]
    out = ring.ring_attention(q, k, v, causal=True)     # with gradients
    out = ring.unshard(out)

W processes form a ring. Keys and values are sent round it while each process computes with
those it has, and partial results are merged by their logsumexps; in the backward pass the
gradients of k and v are sent with them. The engine computes CPU tensors, torch's FlashAttention
kernels CUDA tensors. Windows, ALiBi and sinks apply to the whole sequence. With `balanced` (the
default) process r has parts r and 2W - 1 - r of the 2W parts of each sequence, so that causal
work is the same for all; all processes must make the same choice. If a process does not make a
call that the others make, they wait until the group's timeout.

Results equal those of one process up to rounding: within 2e-6 of the largest value in float32,
2.5e-3 in float16 and 2e-2 in bfloat16, where each of the W partial results is rounded once
more. They have the same bits in every run with the same number of processes.
"""

import itertools
from typing import Any, Optional, Tuple, Union

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import _ring_math as _math

Group = Optional["dist.ProcessGroup"]

__all__ = [
    "positions",
    "ring_attention",
    "ring_attention_varlen",
    "shard",
    "shard_varlen",
    "unshard",
    "unshard_varlen",
]


# --- Which rows a process has


def _part_rows(length, rank, world, balanced):
    """The rows of a sequence that process `rank` has, in its order."""
    parts = 2 * world if balanced else world
    if length % parts:
        raise ValueError(
            f"a sequence of {length} rows does not divide into {parts} parts "
            f"({world} processes{', balanced' if balanced else ''}); pad it"
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


def positions(length: int, group: Group = None, balanced: bool = True) -> Tensor:
    """int64 [length / W]: the positions of this process's rows in the whole sequence.

    >>> position_ids = positions(4096)[None]
    """
    return _part_rows(length, dist.get_rank(group), dist.get_world_size(group), balanced)


def shard(x: Tensor, dim: int = 1, group: Group = None, balanced: bool = True) -> Tensor:
    """This process's rows of x along `dim`; x is the whole, the same in all processes.

    >>> q = shard(q)        # [B, S, H, D] -> [B, S / W, H, D]

    Differentiable: the gradient of x is zero in the rows of other processes. Raises ValueError
    for a length that is not a multiple of 2W (W unless balanced).
    """
    rows = positions(x.shape[dim], group, balanced)
    return x.index_select(dim, rows.to(x.device))


def shard_varlen(
    x: Tensor, cu_seqlens: Tensor, group: Group = None, balanced: bool = True
) -> Tensor:
    """shard() of each sequence of packed rows x [total, ...]; cu_seqlens int32 [B + 1].

    >>> q = shard_varlen(q, cu_seqlens)
    """
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    return x[_packed_rows(cu_seqlens, rank, world, balanced).to(x.device)]


def _gathered(x, dim, rows, group):
    x = x.detach().contiguous()
    parts = [torch.empty_like(x) for _ in rows]
    dist.all_gather(parts, x, group=group)
    order = torch.argsort(torch.cat(rows)).to(x.device)
    return torch.cat(parts, dim).index_select(dim, order)


def unshard(x: Tensor, dim: int = 1, group: Group = None, balanced: bool = True) -> Tensor:
    """Inverse of shard(): the whole, the same in all processes, without a gradient.

    >>> out = unshard(out)
    """
    world = dist.get_world_size(group)
    length = x.shape[dim] * world
    rows = [_part_rows(length, rank, world, balanced) for rank in range(world)]
    return _gathered(x, dim, rows, group)


def unshard_varlen(
    x: Tensor, cu_seqlens: Tensor, group: Group = None, balanced: bool = True
) -> Tensor:
    """Inverse of shard_varlen(): the whole, without a gradient.

    >>> out = unshard_varlen(out, cu_seqlens)
    """
    world = dist.get_world_size(group)
    rows = [_packed_rows(cu_seqlens, rank, world, balanced) for rank in range(world)]
    return _gathered(x, 0, rows, group)


# --- Which blocks to compute


class _Visible:
    """Which keys a row sees, and the slopes of ALiBi; is_placed: whether that depends on the
    positions of both, beyond causality."""

    def __init__(self, causal, window, slopes):
        left, right = (-1 if side < 0 else side for side in window)
        self.causal, self.slopes = causal, slopes
        self.window = (left, 0 if causal else right)
        self.is_placed = slopes is not None or left >= 0 or (right >= 0 and not causal)

    def sees(self, offset, size):
        """Whether any of `size` rows sees any of `size` keys that begin `offset` earlier."""
        left, right = self.window
        is_before = left >= 0 and offset - left >= size
        is_after = right >= 0 and offset + right <= -size
        return size > 0 and not (is_before or is_after)


class _Plan:
    """The layout of the sequences, and the blocks to compute with another process's keys.

    starts: int32 [B + 1] of this process's rows, longest: rows of the longest sequence.
    """

    def __init__(self, starts, longest, group, visible, balanced):
        self.group, self.visible, self.balanced = group, visible, balanced
        self.world, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.starts, self.longest = starts, longest
        self.halves = (None,)
        if balanced and (visible.is_placed or visible.causal and self.world > 1):
            self._halve(starts)

    def _halve(self, starts):
        """Sets the rows of the first and of the second halves of all sequences."""
        row = torch.arange(int(starts[-1]), device=starts.device)
        sequence = torch.searchsorted(starts[1:].contiguous(), row, right=True)
        is_second = row - starts[sequence] >= (starts[1:] - starts[:-1])[sequence] // 2
        self.halves = ((~is_second).nonzero()[:, 0], is_second.nonzero()[:, 0])
        self.half_starts = starts // 2

    def blocks(self, owner):
        """The blocks to compute with the keys of `owner`, as a list of _math.Block."""
        if self.visible.is_placed:
            return list(self._placed(owner))
        if not self.visible.causal:
            return [self._block(None, None)]
        if owner == self.rank:
            return [self._block(None, None, causal=True)]
        if not self.balanced:
            return [self._block(None, None)] if owner < self.rank else []
        # A lower rank's first part precedes both of ours, its second part follows both; all of
        # a higher rank's keys lie between our two parts.
        first, second = self.halves
        is_before = owner < self.rank
        return [self._block(None, first) if is_before else self._block(second, None)]

    def _parts(self, rank):
        """[(number of a part, its rows)] of a process."""
        numbers = (rank, 2 * self.world - 1 - rank) if self.balanced else (rank,)
        return list(zip(numbers, self.halves))

    def _placed(self, owner):
        """Blocks of each part of ours with each of the owner's that it sees."""
        starts = self.half_starts if self.balanced else self.starts
        sizes = starts[1:] - starts[:-1]
        different = sizes.unique().tolist()
        for (q_part, rows_q), (k_part, rows_k) in itertools.product(
            self._parts(self.rank), self._parts(owner)
        ):
            apart = q_part - k_part
            if any(self.visible.sees(apart * size, size) for size in different):
                offsets = (apart * sizes).to(torch.int32)
                yield self._block(rows_q, rows_k, offsets=offsets)

    def _block(self, rows_q, rows_k, causal=False, offsets=None):
        bounds = []
        for rows in (rows_q, rows_k):
            whole = (self.starts, self.longest)
            bounds.append(whole if rows is None else (self.half_starts, self.longest // 2))
        (cu_q, most_q), (cu_k, most_k) = bounds
        return _math.Block(rows_q, rows_k, (cu_q, cu_k, most_q, most_k), causal, offsets)


# --- The ring


class _Ring:
    """Sends a buffer to the next process and receives one from the process before.

    Transfers at the same time need different tags.
    """

    def __init__(self, group, tag):
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        self.group, self.tag = group, tag
        self.next, self.before = (rank + 1) % world, (rank - 1) % world
        if group is not None:
            self.next = dist.get_global_rank(group, self.next)
            self.before = dist.get_global_rank(group, self.before)

    def start(self, buffer):
        """Starts a transfer; wait() of the result is the buffer of the process before."""
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
    """(owner, its k, its v) for each process, our own first; the next arrive while the caller
    computes."""
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
    def forward(ctx, q, k, v, sinks, plan, scale, softcap):
        total = _math.Sum(q, v.shape[-1])
        for owner, k_there, v_there in _travel(plan, k, v):
            for block in plan.blocks(owner):
                parts = block.parts(q, k_there, v_there)
                new = _math.forward(*parts, block, plan.visible, scale, softcap)
                total.add(*new, block.rows_q)
        if sinks is not None:
            total.add_sinks(sinks)
        out, lse = total.out.to(q.dtype), total.lse.t().contiguous()
        ctx.save_for_backward(q, k, v, sinks, out, lse)
        ctx.plan, ctx.scale, ctx.softcap = plan, scale, softcap
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        q, k, v, sinks, out, lse = ctx.saved_tensors
        plan, dout = ctx.plan, dout.contiguous()
        ring = _Ring(plan.group, tag=2)
        dq = torch.zeros_like(q, dtype=torch.float32)
        # The gradients of the keys that are here now, so far; they travel behind the keys.
        sums = torch.zeros(k.numel() + v.numel(), dtype=torch.float32, device=k.device)
        under_way = None
        for owner, k_there, v_there in _travel(plan, k, v):
            found = []
            for block in plan.blocks(owner):
                parts = block.parts(q, k_there, v_there)
                known = block.results(dout, out, lse)
                options = (block, plan.visible, ctx.scale, ctx.softcap)
                found.append((block, _math.backward(*parts, *known, *options)))
            if under_way is not None:
                sums = ring.wait(under_way)
            for block, new in found:
                dq[block.places_q] += new[0]
                for gathered, part in zip(_unpack(sums, k, v), new[1:]):
                    gathered[block.places_k] += part
            if plan.world > 1:
                under_way = ring.start(sums)
        if under_way is not None:
            sums = ring.wait(under_way)
        dk, dv = _unpack(sums, k, v)
        dsinks = None
        if ctx.needs_input_grad[3]:
            dsinks = _math.sinks_gradient(dout, out, lse, sinks)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dsinks, None, None, None


def _check(q, k, v, dims):
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != dims:
            raise ValueError(f"{name}: has {tensor.dim()} dimensions, expected {dims}")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name}: is {tensor.dtype} on {tensor.device}, but q is {q.dtype} on "
                f"{q.device}"
            )
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"q, k and v: shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)} "
            "do not match: each process must have the same rows of all three"
        )


def _check_options(q, sequences, window_size, alibi_slopes, sinks, dropout_p):
    heads = q.shape[-2]
    if dropout_p:
        raise NotImplementedError(
            "dropout_p: dropout is not supported over several processes"
        )
    if len(window_size) != 2:
        raise ValueError(f"window_size: is {window_size!r}, expected (left, right)")
    allowed = {"alibi_slopes": ((heads,), (sequences, heads)), "sinks": ((heads,),)}
    for name, x in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
        if x is None:
            continue
        if x.dtype != torch.float32 or x.device != q.device:
            raise ValueError(
                f"{name}: is {x.dtype} on {x.device}, expected float32 on {q.device}"
            )
        if tuple(x.shape) not in allowed[name]:
            shapes = " or ".join(map(str, allowed[name]))
            raise ValueError(f"{name}: has shape {tuple(x.shape)}, expected {shapes}")


def _attend(q, k, v, sinks, plan, softmax_scale, softcap):
    if not _math.is_engines(q):
        _math.check_cuda(q, plan.visible, softcap)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    q, k, v = (x.contiguous() for x in (q, k, v))
    return _RingAttention.apply(q, k, v, sinks, plan, scale, softcap)


def ring_attention(
    q: Tensor, k: Tensor, v: Tensor, *,
    causal: bool = False, softmax_scale: Optional[float] = None,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
    dropout_p: float = 0.0, group: Group = None, balanced: bool = True,
    return_lse: bool = False,
) -> Union[Tensor, Any]:
    """Attention over the rows of all processes: here q [B, S / W, H, D], k, v [B, S / W, G, D].

    >>> out = ring_attention(shard(q), shard(k), shard(v), causal=True)

    Rows are those of shard(x, group=group, balanced=balanced); without causal their order does
    not matter. Returns out [B, S / W, H, D] of this process's rows, or with return_lse (out,
    lse float32 [B, H, S / W]); only out is differentiable. Every process of the group must
    call it with tensors of the same shape and type, and the same options.

    window_size (left, right), alibi_slopes float32 [H] or [B, H]: as for flash_attn_func, by
    positions in the whole sequence, on the CPU only. sinks float32 [H]: logits that take a
    share of each row's weight and have no value; their gradient is that of this process's
    rows, to be summed over the processes like that of any weight. dropout_p raises
    NotImplementedError.
    """
    _check(q, k, v, 4)
    batch, rows = q.shape[:2]
    _check_options(q, batch, window_size, alibi_slopes, sinks, dropout_p)
    visible = _Visible(causal, window_size, alibi_slopes)
    if (causal or visible.is_placed) and balanced and rows % 2:
        raise ValueError(f"q: {rows} rows are not two parts of the same size; see shard()")
    starts = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * rows
    plan = _Plan(starts, rows, group, visible, balanced)
    flat = (x.flatten(0, 1) for x in (q, k, v))
    out, lse = _attend(*flat, sinks, plan, softmax_scale, softcap)
    out = out.unflatten(0, (batch, rows))
    return (out, lse.unflatten(1, (batch, rows)).transpose(0, 1)) if return_lse else out


def ring_attention_varlen(
    q: Tensor, k: Tensor, v: Tensor,
    cu_seqlens: Tensor, max_seqlen: int, *,
    causal: bool = False, softmax_scale: Optional[float] = None,
    window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
    dropout_p: float = 0.0, group: Group = None, balanced: bool = True,
    return_lse: bool = False,
) -> Union[Tensor, Any]:
    """ring_attention() of packed sequences: q [total / W, H, D], k, v [total / W, G, D].

    >>> q, k, v = (shard_varlen(x, cu_seqlens) for x in (q, k, v))
    >>> out = ring_attention_varlen(q, k, v, cu_seqlens, max_seqlen, causal=True)

    cu_seqlens int32 [B + 1] and max_seqlen are those of the whole sequences, the same in all
    processes. Returns out, or with return_lse (out, lse float32 [H, total / W]). Options: see
    ring_attention().
    """
    _check(q, k, v, 3)
    sequences = cu_seqlens.numel() - 1
    _check_options(q, sequences, window_size, alibi_slopes, sinks, dropout_p)
    visible = _Visible(causal, window_size, alibi_slopes)
    world = dist.get_world_size(group)
    parts = 2 * world if balanced else world
    lengths = cu_seqlens[1:] - cu_seqlens[:-1]
    if bool((lengths % parts).any()) or int(cu_seqlens[-1]) != q.shape[0] * world:
        raise ValueError(
            f"cu_seqlens: sequences must divide into {parts} parts and end at "
            f"{q.shape[0] * world}, the rows of all processes"
        )
    starts = (cu_seqlens // world).to(torch.int32).contiguous()
    plan = _Plan(starts, max_seqlen // world, group, visible, balanced)
    out, lse = _attend(q, k, v, sinks, plan, softmax_scale, softcap)
    return (out, lse) if return_lse else out
