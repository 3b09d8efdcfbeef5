"""attend() and attend_backward(): arrays in, arrays out, computed by the engine.

Letters: B batch, H query heads, G key heads (H is a multiple of G), Sq and Sk
lengths, D head size, Dv value size.
"""

import operator
import sys

from . import _lib
from ._arrays import is_writable, new_like, type_name, view
from ._lib import AT, BF16, BOOL, F8_E4M3, F8_E5M2, F16, F32

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing, which takes 10 ms
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple, Union

    from typing_extensions import Unpack

    from ._types import Array, ArrayT, Layout, Options

_ALIGN = {"bottom-right": 0, "top-left": 1}
_fast = _lib.fast_attend
_FLOATS = (F32, F16, BF16)
_F8S = (F8_E4M3, F8_E5M2)
_NONE = (0, 0, 0, 0, 0, 0)
#: Options that are no arrays.
_PLAIN = frozenset(("causal", "scale", "align", "window", "softcap"))


class _Call:
    """One problem: the values for the struct, and the arrays that they point into."""

    def __init__(self, layout):
        if layout not in ("bshd", "bhsd"):
            raise ValueError(f"layout must be 'bshd' or 'bhsd', not {layout!r}")
        self.values = _lib.values()
        self.kept = []
        self.heads_axis, self.rows_axis = (1, 2) if layout == "bhsd" else (2, 1)
        self.layout = layout

    def set(self, name, *values):
        at = AT[name]
        self.values[at : at + len(values)] = values

    def get(self, name):
        return self.values[AT[name]]

    def array(self, array, name, dtypes):
        found = view(array, name, dtypes)
        self.kept.append(found.array)
        return found

    def rows(self, array, name, packed=False, dtypes=_FLOATS):
        """(struct tensor as values, (B, heads, rows, dim), View) of q, k, v or an output."""
        found = self.array(array, name, dtypes)
        rank = 3 if packed else 4
        if len(found.shape) != rank:
            raise ValueError(
                f"{name}: has {len(found.shape)} dimensions, expected {rank}"
                + (" (total, heads, head size)" if packed else "")
            )
        if found.strides[-1] != 1 and found.shape[-1] > 1 and 0 not in found.shape:
            raise ValueError(
                f"{name}: the last dimension must be contiguous, but has stride "
                f"{found.strides[-1]}"
            )
        if packed:
            shape = (1, found.shape[1], found.shape[0], found.shape[2])
            strides = (0, found.strides[1], found.strides[0])
        else:
            h, s = self.heads_axis, self.rows_axis
            shape = (found.shape[0], found.shape[h], found.shape[s], found.shape[3])
            strides = (found.strides[0], found.strides[h], found.strides[s])
        return (found.address, found.dtype, 0, *strides), shape, found

    def given(self, array, name, shape, packed):
        """rows() of an array that must have `shape`: only the values."""
        values, _, found = self.rows(array, name, packed)
        if tuple(found.shape) != tuple(shape):
            raise ValueError(f"{name}: shape {tuple(found.shape)}, expected {tuple(shape)}")
        return values

    def output(self, array, name, shape, packed):
        """given() of an array that the engine writes to."""
        values = self.given(array, name, shape, packed)
        if not is_writable(array):
            raise ValueError(f"{name}: is read-only")
        return values

    def scores(self, array, name, dtypes):
        """bias or mask, broadcast from the right to [B, H, Sq, Sk]."""
        found = self.array(array, name, dtypes)
        wanted = (self.get("batch"), self.get("heads"), self.get("q_len"), self.get("k_len"))
        if len(found.shape) > 4:
            raise ValueError(f"{name}: has {len(found.shape)} dimensions, at most 4")
        shape = (1,) * (4 - len(found.shape)) + tuple(found.shape)
        strides = (0,) * (4 - len(found.shape)) + tuple(found.strides)
        if any(have not in (1, want) for have, want in zip(shape, wanted)):
            raise ValueError(
                f"{name}: shape {tuple(found.shape)} does not broadcast to {wanted}"
            )
        strides = [0 if have == 1 else stride for have, stride in zip(shape, strides)]
        if shape[3] != wanted[3] or (wanted[3] > 1 and strides[3] != 1):
            raise ValueError(
                f"{name}: the last dimension must be {wanted[3]} contiguous keys, and cannot "
                "be broadcast"
            )
        self.set(name, found.address, found.dtype, 0, *strides[:3])

    def integers(self, array, name, count=None):
        """Address of a contiguous int32 array; None is 0."""
        if array is None:
            return 0
        found = self.array(array, name, ("int32",))
        if len(found.shape) != 1 or (found.shape[0] > 1 and found.strides[0] != 1):
            raise ValueError(f"{name}: must be one contiguous dimension")
        if count is not None and found.shape[0] != count:
            raise ValueError(f"{name}: has {found.shape[0]} elements, expected {count}")
        return found.address

    def numbers(self, array, name, shape):
        found = self.array(array, name, (F32,))
        if tuple(found.shape) != tuple(shape) or (
            found.shape[-1] > 1 and found.strides[-1] != 1
        ):
            raise ValueError(
                f"{name}: shape {tuple(found.shape)}, expected {tuple(shape)}, contiguous"
            )
        return found

    def per_head(self, array, name, rows, heads):
        """(address, stride between rows) of float32 [heads], stride 0, or [rows, heads]."""
        found = self.array(array, name, (F32,))
        if tuple(found.shape) not in ((heads,), (rows, heads)):
            raise ValueError(
                f"{name}: shape {tuple(found.shape)}, expected ({heads},) or ({rows}, {heads})"
            )
        if heads > 1 and found.strides[-1] != 1:
            raise ValueError(f"{name}: the last dimension must be contiguous")
        return found.address, found.strides[0] if len(found.shape) == 2 else 0


def _number(options, name):
    """The option as float; None stays."""
    value = options[name]
    try:
        return None if value is None and name == "scale" else float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: must be a number, not {value!r}") from None


def _integer(options, name):
    try:
        return operator.index(options[name])
    except TypeError:
        raise TypeError(f"{name}: must be an integer, not {options[name]!r}") from None


def _pair(options, name, meaning):
    """The option as two integers."""
    value = options[name]
    try:
        first, second = value
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: must be {meaning}, two integers, not {value!r}") from None


def _check_together(options, first, second):
    if (options[first] is None) != (options[second] is None):
        missing = first if options[first] is None else second
        raise ValueError(f"{missing}: is missing; {first} and {second} belong together")


def _set_lengths(call, options, q_shape, k_shape):
    """Sets the sizes of the problem, and which rows belong to which sequence."""
    cu_q, cu_k = options["cu_seqlens_q"], options["cu_seqlens_k"]
    batch, q_len = q_shape[0], q_shape[2]
    if cu_q is not None:
        starts = call.array(cu_q, "cu_seqlens_q", ("int32",)).shape
        if len(starts) != 1 or starts[0] < 1:
            raise ValueError(
                f"cu_seqlens_q: shape {tuple(starts)}, expected one dimension with one element "
                "more than there are sequences"
            )
        batch = starts[0] - 1
        if options["max_seqlen_q"] is None:
            raise ValueError("max_seqlen_q: is required with cu_seqlens_q")
        call.set("cu_seqlens_q", call.integers(cu_q, "cu_seqlens_q"))
        call.set("total_q", q_shape[2])
        q_len = _integer(options, "max_seqlen_q")
    k_len = k_shape[2]
    if cu_k is not None:
        if options["max_seqlen_k"] is None:
            raise ValueError("max_seqlen_k: is required with cu_seqlens_k")
        call.set("cu_seqlens_k", call.integers(cu_k, "cu_seqlens_k", batch + 1))
        call.set("total_k", k_shape[2])
        k_len = _integer(options, "max_seqlen_k")
    if options["block_table"] is not None:
        table = call.array(options["block_table"], "block_table", ("int32",))
        if len(table.shape) != 2 or table.shape[0] != batch or table.strides[1] != 1:
            raise ValueError(
                f"block_table: shape {tuple(table.shape)}, expected ({batch}, pages)"
            )
        call.set("block_table", table.address, table.strides[0], k_shape[2], k_shape[0])
        k_len = table.shape[1] * k_shape[2]
    if options["cache_batch_idx"] is not None:
        call.set(
            "cache_batch_idx",
            call.integers(options["cache_batch_idx"], "cache_batch_idx", batch),
            k_shape[0],
        )
    for name in ("seqused_q", "seqused_k", "leftpad_k"):
        call.set(name, call.integers(options[name], name, batch))
    call.set("batch", batch, q_shape[1], k_shape[1], q_len, k_len, q_shape[3])
    return batch


def _set_append(call, options, batch):
    _check_together(options, "k_new", "v_new")
    _check_together(options, "rotary_cos", "rotary_sin")
    if options["k_new"] is not None:
        for name in ("k", "v"):
            if not is_writable(options[name]):
                raise ValueError(f"{name}: is read-only, but k_new and v_new are written to it")
        k_new, shape, _ = call.rows(options["k_new"], "k_new")
        v_new, v_shape, _ = call.rows(options["v_new"], "v_new")
        if shape[:3] != v_shape[:3] or shape[0] != batch:
            raise ValueError(f"k_new and v_new: shapes {shape} and {v_shape} do not match")
        call.set("k_new", *k_new)
        call.set("v_new", *v_new)
        call.set("new_len", shape[2])
    if options["rotary_cos"] is not None:
        cos = view(options["rotary_cos"], "rotary_cos")
        if len(cos.shape) != 2:
            raise ValueError(f"rotary_cos: shape {tuple(cos.shape)}, expected (rows, dim / 2)")
        rows, half = cos.shape
        call.numbers(options["rotary_cos"], "rotary_cos", (rows, half))
        sin = call.numbers(options["rotary_sin"], "rotary_sin", (rows, half))
        call.set(
            "rotary_cos",
            cos.address,
            sin.address,
            rows,
            2 * half,
            int(options["rotary_interleaved"]),
        )


def _set_scores(call, options, batch):
    """Sets everything that changes a score or hides a key."""
    heads = call.get("heads")
    left, right = _pair(options, "window", "(left, right)")
    offsets = options["causal_offsets"]
    if options["align"] not in _ALIGN:
        raise ValueError(
            f"align must be 'bottom-right' or 'top-left', not {options['align']!r}"
        )
    call.set(
        "scale",
        _lib.engine_scale(_number(options, "scale")),
        _number(options, "softcap"),
        int(bool(options["causal"])),
        2 if offsets is not None else _ALIGN[options["align"]],
        left,
        right,
        call.integers(offsets, "causal_offsets", batch),
    )
    slopes = options["alibi_slopes"]
    if slopes is not None:
        call.set("alibi_slopes", *call.per_head(slopes, "alibi_slopes", batch, heads))
    if options["sinks"] is not None:
        call.set("sinks", call.numbers(options["sinks"], "sinks", (heads,)).address)
    if options["bias"] is not None:
        call.scores(options["bias"], "bias", _FLOATS)
    if options["mask"] is not None:
        call.scores(options["mask"], "mask", (BOOL,))
    if options["dropout"]:
        seed = _pair(options, "philox", "(seed, offset)")
        call.set("dropout", _number(options, "dropout"), *seed)


def _set_scales(call, options, batch, pages):
    """Sets the scales of fp8 keys and values; `pages` of the cache, if it has pages."""
    heads = call.get("kv_heads")
    rows = pages if options["scale_per_page"] else batch
    strides = set()
    for name in ("k_scales", "v_scales"):
        if options[name] is None:
            continue
        address, stride = call.per_head(options[name], name, rows, heads)
        call.set(name, address)
        strides.add(stride if rows > 1 else 0)
    if len(strides) > 1:
        raise ValueError("k_scales and v_scales: their shapes or strides differ")
    call.set("scale_stride", *(strides or {0}), int(bool(options["scale_per_page"])))


#: Every option of attend() and attend_backward(), with its default.
_OPTIONS = {
    "causal": False,
    "scale": None,
    "align": "bottom-right",
    "causal_offsets": None,
    "window": (-1, -1),
    "softcap": 0.0,
    "alibi_slopes": None,
    "sinks": None,
    "bias": None,
    "mask": None,
    "cu_seqlens_q": None,
    "cu_seqlens_k": None,
    "max_seqlen_q": None,
    "max_seqlen_k": None,
    "seqused_q": None,
    "seqused_k": None,
    "leftpad_k": None,
    "cache_batch_idx": None,
    "block_table": None,
    "k_new": None,
    "v_new": None,
    "rotary_cos": None,
    "rotary_sin": None,
    "rotary_interleaved": True,
    "dropout": 0.0,
    "philox": (0, 0),
    "k_scales": None,
    "v_scales": None,
    "scale_per_page": False,
}


def unexpected(name, known):
    """The error for an option that is none of the known ones."""
    import difflib  # not needed by calls that succeed

    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return TypeError(f"unexpected option '{name}'{hint}")


def _problem(q, k, v, layout, given):
    """(a _Call with everything but the outputs, q's shape (1 or B, H, rows, D), q's View)."""
    options = {**_OPTIONS, **given}
    if len(options) > len(_OPTIONS):
        raise unexpected(next(name for name in given if name not in _OPTIONS), _OPTIONS)
    call = _Call(layout)
    q_values, q_shape, q_view = call.rows(q, "q", options["cu_seqlens_q"] is not None)
    packed_k = options["cu_seqlens_k"] is not None
    k_values, k_shape, k_view = call.rows(k, "k", packed_k, _FLOATS + _F8S)
    v_values, v_shape, v_view = call.rows(v, "v", packed_k, _FLOATS + _F8S)
    if k_view.dtype != v_view.dtype or k_view.dtype not in (q_view.dtype, *_F8S):
        raise TypeError(
            f"q, k and v have types {type_name(q_view.dtype)}, "
            f"{type_name(k_view.dtype)} and {type_name(v_view.dtype)}"
        )
    if k_shape[:3] != v_shape[:3]:
        raise ValueError(
            f"k and v: shapes {tuple(k_view.shape)} and {tuple(v_view.shape)} do not match"
        )
    if q_shape[3] != k_shape[3]:
        raise ValueError(f"q and k: head sizes {q_shape[3]} and {k_shape[3]} differ")
    batch = _set_lengths(call, options, q_shape, k_shape)
    if q_shape[0] != batch and options["cu_seqlens_q"] is None:
        raise ValueError(f"q: batch {q_shape[0]}, expected {batch}")
    own_batch = options["block_table"] is None and options["cache_batch_idx"] is None
    if own_batch and options["cu_seqlens_k"] is None and k_shape[0] != batch:
        raise ValueError(f"k: batch {k_shape[0]}, expected {batch}")
    call.set("value_dim", v_shape[3], *q_values, *k_values, *v_values)
    _set_append(call, {**options, "k": k, "v": v}, batch)
    _set_scales(call, options, batch, k_shape[0])
    _set_scores(call, options, batch)
    return call, q_shape, q_view


def _rows_shape(call, shape, dim, packed):
    if packed:
        return (shape[2], shape[1], dim)
    if call.layout == "bhsd":
        return (shape[0], shape[1], shape[2], dim)
    return (shape[0], shape[2], shape[1], dim)


def _set_lse(call, lse, q_shape, packed):
    """lse is [B, H, Sq] f32, or [H, total] of packed sequences."""
    shape = (q_shape[1], q_shape[2]) if packed else q_shape[:3]
    found = call.numbers(lse, "lse", shape)
    call.set(
        "lse",
        found.address,
        0 if packed else found.strides[0],
        found.strides[0] if packed else found.strides[1],
    )


def _fast_torch(q, k, v, layout, out, return_lse, address, options):
    """_fast() of torch tensors that NumPy can describe; None for others."""
    torch = sys.modules["torch"]
    if options.keys() - _PLAIN or out is not None or q.dtype is torch.bfloat16:
        return None
    try:
        arrays = q.numpy(), k.numpy(), v.numpy()
    except (AttributeError, RuntimeError, TypeError):  # of another device, with a gradient, ...
        return None
    done = _fast(*arrays, layout, None, return_lse, address, options)
    if done is None:
        return None
    return tuple(map(torch.from_numpy, done)) if return_lse else torch.from_numpy(done)


def attend(
    q: "ArrayT", k: "Array", v: "Array", *,
    layout: "Layout" = "bshd", out: "Optional[ArrayT]" = None, return_lse: bool = False,
    _threads_of: "Any" = None, **options: "Unpack[Options]",
) -> "Union[ArrayT, Any]":
    """Exact attention on the CPU: softmax(scale * q k^T + ...) v.

    >>> out = anyflash.attend(q, k, v, causal=True)

    q: [B, Sq, H, D], k: [B, Sk, G, D], v: [B, Sk, G, Dv] (layout "bshd"), or heads before
    rows ("bhsd"); float32, float16 or bfloat16, the same for all, but k and v may also be
    float8_e4m3fn or float8_e5m2; any strides with a contiguous last dimension; nothing is
    copied. NumPy arrays, torch CPU tensors, or anything with __dlpack__.

    Keyword options:
      causal, window=(left, right), align="bottom-right"|"top-left", causal_offsets [B] int32:
        which keys are visible, as in flash-attn; -1 in a window is no limit
      scale: factor of the scores, None is 1/sqrt(D); softcap: cap * tanh(score / cap)
      alibi_slopes: float32 [H] or [B, H]; sinks: float32 [H]
      bias: float [.., Sq, Sk], added; mask: bool [.., Sq, Sk], True is visible; both broadcast
        over batch, heads and queries
      cu_seqlens_q, cu_seqlens_k int32 [B + 1] with max_seqlen_q, max_seqlen_k: packed
        sequences, q is then [total, H, D]; seqused_q, seqused_k, leftpad_k: int32 [B]
      block_table int32 [B, pages]: k, v are pages [pages, page size, G, D]; cache_batch_idx
        int32 [B]; k_new, v_new: appended to k, v in place at seqused_k; rotary_cos, rotary_sin
        float32 [rows, dim / 2] with rotary_interleaved
      k_scales, v_scales: float32 [G] or [B, G], factors of fp8 keys and values, by which new
        ones are divided; with scale_per_page [pages, G]
      dropout: probability, with philox=(seed, offset)
      out: array for the result; return_lse: also return the logsumexp of each row, float32
        [B, H, Sq] ([H, total] when packed), -inf for a row that sees no key

    Returns out, or (out, lse). Raises ValueError or TypeError that names the argument,
    NotImplementedError for options that the engine does not support, or MemoryError. For
    gradients use attend_backward(), or the torch functions of this package. float64, too, is
    for these: they choose a provider, and torch has float64; the engine, which computes all of
    attend(), does not.
    """
    context = _lib._context  # a reference: set_threads() may be called meanwhile
    if _threads_of is None:
        fast = _fast_torch if type(q).__module__ == "torch" else _fast
        done = fast(q, k, v, layout, out, return_lse, context.address, options)
        if done is not None:
            return done
    call, q_shape, q_view = _problem(q, k, v, layout, options)
    packed = options.get("cu_seqlens_q") is not None
    shape = _rows_shape(call, q_shape, call.get("value_dim"), packed)
    if out is None:
        out = new_like(q, shape, q_view.dtype)
    call.set("o", *call.output(out, "out", shape, packed))
    if not return_lse:
        _lib.attend(call.values, _threads_of)
        return out
    lse = new_like(q, (q_shape[1], q_shape[2]) if packed else q_shape[:3], F32)
    _set_lse(call, lse, q_shape, packed)
    _lib.attend(call.values, _threads_of)
    return out, lse


def attend_backward(
    dout: "Array", q: "ArrayT", k: "Array", v: "Array", out: "Array", lse: "Array", *,
    layout: "Layout" = "bshd", dlse: "Optional[Array]" = None, return_dbias: bool = False,
    return_dsinks: bool = False, _threads_of: "Any" = None, **options: "Unpack[Options]",
) -> "Tuple[ArrayT, ...]":
    """Gradients of attend() with the same arguments and options.

    >>> out, lse = anyflash.attend(q, k, v, causal=True, return_lse=True)
    >>> dq, dk, dv = anyflash.attend_backward(dout, q, k, v, out, lse, causal=True)

    dout: gradient of out; dlse: gradient of lse, or None. Returns (dq, dk, dv), then dbias
    [of bias's shape, float32] with return_dbias, and dsinks [H] with return_dsinks. The same
    bits for every number of threads.
    """
    call, q_shape, q_view = _problem(q, k, v, layout, options)
    packed_q = options.get("cu_seqlens_q") is not None
    packed_k = options.get("cu_seqlens_k") is not None
    shape = _rows_shape(call, q_shape, call.get("value_dim"), packed_q)
    call.set("o", *call.given(out, "out", shape, packed_q))
    _set_lse(call, lse, q_shape, packed_q)
    gradients = [
        new_like(q, tuple(view(x, n).shape), q_view.dtype)
        for x, n in ((q, "q"), (k, "k"), (v, "v"))
    ]
    tensors = [call.given(dout, "dout", shape, packed_q)]
    tensors += [
        call.rows(g, "gradient", p)[0]
        for g, p in zip(gradients, (packed_q, packed_k, packed_k))
    ]
    dbias, dbias_values, dsinks, dsinks_address, dlse_address = None, _NONE, None, 0, 0
    if return_dbias:
        dbias, dbias_values = _new_dbias(call, options.get("bias"), q)
    if return_dsinks:
        dsinks = new_like(q, (q_shape[1],), F32)
        dsinks_address = view(dsinks, "dsinks").address
    if dlse is not None:
        found = call.numbers(dlse, "dlse", view(lse, "lse").shape)
        if found.strides != view(lse, "lse").strides:
            raise ValueError("dlse: must have the strides of lse")
        dlse_address = found.address
    _lib.attend_backward(
        call.values, *tensors, dbias_values, dsinks_address, dlse_address, _threads_of
    )
    return (
        *gradients,
        *([dbias] if return_dbias else []),
        *([dsinks] if return_dsinks else []),
    )


def _new_dbias(call, bias, model):
    """An array for the gradient of bias, which the engine zeroes and sums over broadcasts."""
    if bias is None:
        raise ValueError("return_dbias: there is no bias")
    shape = tuple(view(bias, "bias").shape)
    dbias = new_like(model, shape, F32)
    found = view(dbias, "dbias")
    full = (1,) * (4 - len(shape)) + shape
    strides = (0,) * (4 - len(shape)) + tuple(found.strides)
    strides = [0 if extent == 1 else stride for extent, stride in zip(full, strides)]
    call.kept.append(dbias)
    return dbias, (found.address, F32, 0, *strides[:3])
