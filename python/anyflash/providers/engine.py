"""The engine's CPU kernels, for CPU tensors: every option of flash-attn, and sinks.

Without a gradient a call goes to the operator with the least overhead; with a gradient and in
a compiled graph it is the operator anyflash::attend.
"""

import operator

import torch

from .. import _attend, _lib, _torch_ops
from .._lib import engine_scale
from .call import LSE, PROBABILITIES, needs_gradient, seed, transformed, unit

name = "engine"

_TYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
_INF = float("inf")
_NO_WINDOW = (-1, -1)
_forward, _dense = _torch_ops.quick_forward, _torch_ops.quick_dense
_only_out = _torch_ops.quick_only_out


def declines(call):
    q, starts = call.q, call.cu_q
    if not (q.is_cpu and call.k.is_cpu and call.v.is_cpu):
        return f"computes on the CPU, but q is on {q.device}"
    if starts is not None and not (starts.is_cpu and (call.cu_k is None or call.cu_k.is_cpu)):
        return f"computes on the CPU, but cu_seqlens_q is on {starts.device}"
    if q.dtype not in _TYPES:
        return f"takes float32, bfloat16 and float16, but q is {q.dtype}"
    if transformed():
        return "does not support torch.func transforms"
    if call.block_table is not None and needs_gradient(call):
        return "has no gradient through pages"
    if call.dropout > 0 and call.want == PROBABILITIES and torch.compiler.is_compiling():
        return "cannot return probabilities with dropout in a compiled graph"
    return None


if _lib.missing:

    def declines(call):
        return _lib.missing


def _float32(tensor):
    return None if tensor is None else tensor.to(torch.float32).contiguous()


def _sequences(call):
    """The options of anyflash::attend up to the sinks."""
    packed = (call.cu_q, call.cu_k, call.max_q, call.max_k)
    keys = (call.seqused_k, call.leftpad, call.block_table)
    return *packed, *keys, _float32(call.alibi_slopes), _float32(call.sinks)


def _mask(call):
    """Its options causal, window_left, window_right, softcap."""
    return bool(call.causal), *map(operator.index, call.window), float(call.softcap)


def _options(call, drawn):
    """The options of anyflash::attend; `drawn` is the seed of dropout."""
    scale, dropout = engine_scale(call.softmax_scale), float(call.dropout)
    return *_sequences(call), scale, *_mask(call), dropout, drawn


def _no_gradient(call):
    """(out, lse) without a gradient and dropout, by the operator with the least overhead; lse
    may be None if it is not wanted."""
    scale = engine_scale(call.scale)
    if (
        call.window == _NO_WINDOW
        and not call.softcap
        and call.cu_q is call.seqused_k is call.leftpad is call.block_table is None
        and call.alibi_slopes is call.sinks is None
    ):
        if call.want < LSE:
            return _only_out(call.q, call.k, call.v, scale, bool(call.causal)), None
        return _dense(call.q, call.k, call.v, scale, bool(call.causal))
    return _forward(call.q, call.k, call.v, *_sequences(call), scale, *_mask(call))


def _unit_values(k, start, stop, call):
    """Values whose column c is 1 in row start + c of each sequence, and 0 elsewhere."""
    rows = torch.arange(k.shape[0 if call.cu_k is not None else 1])
    if call.cu_k is not None:
        batch = torch.searchsorted(call.cu_k.long(), rows, right=True) - 1
        rows = rows - call.cu_k.long()[batch]
    unit = (rows[:, None] == torch.arange(start, stop)).to(k.dtype)
    return unit[:, None].expand(*k.shape[:-1], stop - start).contiguous()


def _probabilities(call, q, k, options):
    """S_dmask [B, H, Sq, Sk]: the probabilities divided by the largest of their row, negative
    where dropout removed them.

    For tests and debugging, as in flash-attn; computed by two attentions over unit vectors.
    """
    columns, width = call.max_k if call.cu_k is not None else k.shape[1], 256
    parts = []
    for start in range(0, columns, width):
        unit = _unit_values(k, start, min(start + width, columns), call)
        dropped = _torch_ops.attend(q, k, unit, *options)[0]
        whole = _torch_ops.attend(q, k, unit, *options[:14], 0.0, 0)[0]
        parts.append(torch.where((dropped == 0) & (whole != 0), -whole, whole))
    found = torch.cat(parts, -1)
    found = found / found.abs().amax(-1, keepdim=True).clamp_min(2**-14)
    if call.cu_q is None:
        return found.transpose(1, 2)
    square = found.new_zeros(len(call.cu_q) - 1, found.shape[1], call.max_q, columns)
    ends = call.cu_q.tolist()
    for batch, (start, stop) in enumerate(zip(ends, ends[1:])):
        square[batch, :, : stop - start] = found[start:stop].transpose(0, 1)
    return square


def _positive(lse):
    """lse with +inf for a row that sees no key, as in flash-attn."""
    with torch.no_grad():
        return torch.where(lse == -_INF, _INF, lse)


def _with_gradient(call):
    """forward() with a gradient or dropout, or in a compiled graph."""
    q, k, v = unit(call.q), unit(call.k), unit(call.v)
    if call.dropout and torch.compiler.is_compiling():
        out, lse = _torch_ops.attend_dropped(q, k, v, *_options(call, 0)[:-1])
        return out, _positive(lse) if call.want >= LSE else None, None
    options = _options(call, seed(call.dropout))
    out, lse = _torch_ops.attend(q, k, v, *options)
    if call.want < LSE:
        return out, None, None
    if call.want < PROBABILITIES or call.dropout == 0:
        return out, _positive(lse), None
    with torch.no_grad():
        return out, _positive(lse), _probabilities(call, q.detach(), k.detach(), options)


def _no_second_derivative(ctx, *gradients):
    raise RuntimeError(
        "the engine has no second derivative; set ANYFLASH_PROVIDER=plain to get one"
    )


def _nothing_kept(ctx, inputs, output):
    pass


# Without this torch treats the first derivative as a constant, and only warns.
for _name in ("anyflash::attend_backward", "anyflash::attend_dropout_backward"):
    torch.library.register_autograd(
        _name, _no_second_derivative, setup_context=_nothing_kept, lib=_torch_ops._library
    )

#: Options of the two operators on a cache; _CACHE_NAMES are their names in _attend.attend().
_CACHE_OPTIONS = (
    "Tensor? k, Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, bool interleaved, "
    "Tensor? cache_seqlens, Tensor? cache_batch_idx, Tensor? cache_leftpad, "
    "Tensor? block_table, Tensor? alibi_slopes, Tensor? sinks, float scale, bool causal, "
    "int window_left, int window_right, float softcap"
)
_CACHE_NAMES = (
    "k_new v_new rotary_cos rotary_sin rotary_interleaved seqused_k cache_batch_idx leftpad_k "
    "block_table alibi_slopes sinks scale causal"
).split()


def _cache_options(call):
    """The options of the operators on a cache."""
    new = (unit(call.k_new), unit(call.v_new))
    rotary = (_float32(call.rotary_cos), _float32(call.rotary_sin), bool(call.interleaved))
    keys = (call.seqused_k, call.batch_idx, call.leftpad, call.block_table)
    scores = (_float32(call.alibi_slopes), _float32(call.sinks), float(call.softmax_scale))
    return *new, *rotary, *keys, *scores, *_mask(call)


def _named_cache_options(*options):
    named = dict(zip(_CACHE_NAMES, options))
    named["window"], named["softcap"] = options[-3:-1], options[-1]
    return named


def _attend_cache(q, k_cache, v_cache, *options):
    with torch.no_grad():
        return _attend.attend(
            q,
            k_cache,
            v_cache,
            return_lse=True,
            _threads_of=_torch_ops._threads,
            **_named_cache_options(*options),
        )


def _attend_cache_fake(q, k_cache, v_cache, *options):
    batch, rows, heads, _ = q.shape
    out = q.new_empty((batch, rows, heads, v_cache.shape[-1]))
    return out, q.new_empty((batch, heads, rows), dtype=torch.float32)


#: anyflash::append_to_cache writes k, v into the cache, anyflash::attend_to_cache reads it.
_library = torch.library.Library("anyflash", "FRAGMENT")
for _name, _caches in (
    ("append_to_cache", "Tensor(a!) k_cache, Tensor(b!) v_cache"),
    ("attend_to_cache", "Tensor k_cache, Tensor v_cache"),
):
    _library.define(f"{_name}(Tensor q, {_caches}, {_CACHE_OPTIONS}) -> (Tensor, Tensor)")
    _library.impl(_name, _attend_cache, "CPU")
    torch.library.register_fake(f"anyflash::{_name}", _attend_cache_fake, lib=_library)


def _with_cache(call):
    """(out, lse) of a call with a cache, after new keys have been written into it."""
    only_read = call.k_new is call.rotary_cos is call.batch_idx is None
    if only_read and not torch.compiler.is_compiling():
        try:
            return _no_gradient(call)
        except (RuntimeError, TypeError, ValueError):  # see forward()
            pass
    given = (unit(call.q), call.k, call.v, *_cache_options(call))
    if not torch.compiler.is_compiling():
        return _attend_cache(*given)
    if call.k_new is not None:
        return torch.ops.anyflash.append_to_cache(*given)
    return torch.ops.anyflash.attend_to_cache(*given)


def forward(call):
    """(out, lse, probabilities); the last two are None unless call.want asks for them."""
    if call.cache:
        out, lse = _with_cache(call)
    elif call.dropout or torch.compiler.is_compiling() or needs_gradient(call):
        return _with_gradient(call)
    else:
        try:
            out, lse = _no_gradient(call)
        except (RuntimeError, TypeError, ValueError):
            # A last dimension that is not contiguous is copied here; a wrong argument is named.
            return _with_gradient(call)
    if call.want < LSE:
        return out, None, None
    return out, _positive(lse), None


def kernel(call):
    """The name of the engine's kernel for this call; nothing is computed."""
    if call.cache:
        options = _named_cache_options(*_cache_options(call))
    else:
        options = _torch_ops._named(*_options(call, 0))
    with torch.no_grad():
        q, k, v = unit(call.q.detach()), unit(call.k.detach()), unit(call.v.detach())
        problem, _, _ = _attend._problem(q, k, v, "bshd", options)
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
        problem.set("o", *problem.rows(out, "out", call.cu_q is not None)[0])
        return _lib.explain_kernel(problem.values).splitlines()[0].split()[-1]
