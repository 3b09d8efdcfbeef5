"""Attention of the layers of a step over paged caches of torch tensors, for vLLM.

A step has T packed tokens of several requests. Step checks once what all its layers have in
common, and keeps it as values of the engine's struct; a layer sets the others and calls the
engine, without making a tensor.

The cache of a layer is [pages, G, page size, 2 D]. Each head of a page holds all its keys, then
all its values. An fp8 cache is a tensor of bytes, which F8 describes.
"""

import ctypes
import struct

import torch

from . import _attend, _lib
from ._lib import AT
from ._torch_ops import _threads

_TYPES = {torch.float32: _lib.F32, torch.float16: _lib.F16, torch.bfloat16: _lib.BF16}
_HEADS, _DIMS, _TENSORS, _SCORES = AT["heads"], AT["head_dim"], AT["q"], AT["scale"]
_SINKS, _LENGTHS, _PAGES, _NEW = AT["sinks"], AT["seqused_k"], AT["page_count"], AT["k_new"]
_SCALES, _TABLE, _K_LEN = AT["k_scales"], AT["block_table"], AT["k_len"]
_F8 = {torch.float8_e4m3fn: _lib.F8_E4M3, torch.float8_e5m2: _lib.F8_E5M2}

_STEP = struct.Struct("@3P4q")  # struct anyflash_torch_step
_ROWS = struct.Struct("@3P9q")  # struct anyflash_torch_rows
#: Up to this size new keys are copied on one thread.
_FEW_BYTES = 1 << 18


class F8:
    """The type of an fp8 cache, and the factors (for keys, for values) of its elements."""

    def __init__(self, dtype, factors, groups):
        self.dtype, self.code, self.factors = dtype, _F8[dtype], tuple(factors)
        self.largest = torch.finfo(dtype).max
        self.scales = [torch.full((groups,), factor) for factor in factors]
        self.addresses = [scales.data_ptr() for scales in self.scales]

    def encode(self, new, factor):
        """The bytes of new keys or values, as the engine makes them when it appends."""
        scaled = (new.float() / factor).clamp(-self.largest, self.largest)
        return scaled.to(self.dtype).view(torch.uint8)


def keys_and_values(cache):
    """The keys and the values in a cache: [pages, G, page size, D] each."""
    pages, heads, rows, _ = cache.shape
    return cache.view(pages, heads, 2 * rows, -1).chunk(2, dim=2)


def places(slots, page_size):
    """(tokens that have a slot, the page of each, the row in it) for write().

    slots: int64, page * page size + row of each token; -1: none.
    """
    tokens = slice(len(slots))
    if (slots < 0).any():
        tokens = (slots >= 0).nonzero().flatten()
    slots = slots[tokens]
    return tokens, slots // page_size, slots % page_size


def write(key, value, caches, places, f8=None):
    """Writes rows of key and value [tokens, G, D] into their caches, both [pages, G, page size,
    D]."""
    tokens, page, row = places
    for i, new in enumerate((key[tokens], value[tokens])):
        new = new.to(caches[i].dtype) if f8 is None else f8.encode(new, f8.factors[i])
        caches[i][page, :, row] = new


def scores(heads, **options):
    """The options of attend() that change a score, but for sinks, as Step.attend() takes them.

    alibi_slopes must stay alive.
    """
    call = _attend._Call("bhsd")
    call.set("heads", heads)
    _attend._set_scores(call, {**_attend._OPTIONS, **options}, 1)
    return call.values[_SCORES:_SINKS]


def _packed(tensor, name, like, tokens, heads):
    """The struct's values of a tensor [tokens or more, heads, D], whose type and D are those
    of `like`."""
    shape, strides = tensor.shape, tensor.stride()
    if tensor.dtype != like.dtype or not tensor.is_cpu:
        raise TypeError(
            f"{name}: is {tensor.dtype} on {tensor.device}, expected {like.dtype} on the CPU"
        )
    if shape[0] < tokens or shape[1:] != (heads, like.shape[2]) or strides[2] != 1:
        raise ValueError(
            f"{name}: shape {tuple(shape)} with strides {strides}, expected ({tokens}, "
            f"{heads}, {like.shape[2]}) with a contiguous last dimension"
        )
    return tensor.data_ptr(), _TYPES[tensor.dtype], 0, 0, strides[1], strides[0]


class Step:
    """The tokens of each request and its pages; the tensors must stay alive.

    starts: int32 [requests + 1], the first token of each; longest: most tokens of one;
    lengths: int32 [requests], keys of each, including new ones; table: int32 [requests, pages];
    slots: as for places(), of the new keys.
    """

    def __init__(self, tokens, starts, longest, lengths, table, slots, page_size):
        self.tokens, self.slots, self.page_size = tokens, slots, page_size
        call, options = _attend._Call("bhsd"), {**_attend._OPTIONS, "block_table": table}
        options |= {"cu_seqlens_q": starts, "max_seqlen_q": longest, "seqused_k": lengths}
        sizes = (1, 1, tokens, 1), (1, 1, page_size, 1)  # layers set the 1s
        requests = _attend._set_lengths(call, options, *sizes)
        self.values, self.lengths = call.values, lengths.data_ptr()
        one_each = longest == 1 and tokens == requests
        self.past = self._lengths_before(requests) if one_each else None
        self.places = None

    def _lengths_before(self, requests):
        """The lengths before this step, as an array of ctypes, if slots are where the engine
        appends: after the keys of each request, never two in one page. Else None."""
        slots, values, size = self.slots, self.values, self.page_size
        if slots.dtype != torch.int64 or len(slots) < requests or slots.stride(0) != 1:
            return None
        past = ctypes.create_string_buffer(4 * requests)
        addresses = self.lengths, values[_TABLE], slots.data_ptr()
        pages = values[_K_LEN] // size
        step = _STEP.pack(*addresses, requests, values[_TABLE + 1], pages, size)
        return past if _lib.bindings.anyflash_torch_appends(step, past) else None

    def _write(self, q, key, value, cache, f8):
        """Writes a layer's new keys and values, in C if they are few and of the cache's
        type."""
        (pages, groups, rows, _), slots = cache.shape, self.slots[: len(key)]
        dim, size = q.shape[2], cache.element_size()
        few = len(slots) * groups * dim * size <= _FEW_BYTES
        plain = key.dtype == value.dtype == cache.dtype and slots.dtype == torch.int64
        if not (few and plain and slots.stride(0) == 1):
            if self.places is None:
                self.places = places(slots, self.page_size)
            write(key, value, keys_and_values(cache), self.places, f8)
            return
        by_page, by_head = (stride * size for stride in cache.stride()[:2])
        in_cache = pages, rows, by_page, by_head
        for name, new, at in (("key", key, 0), ("value", value, rows * dim * size)):
            address, _, _, _, head, token = _packed(new, name, q, len(slots), groups)
            addresses = address, cache.data_ptr() + at, slots.data_ptr()
            given = len(slots), groups, dim * size, token * size, head * size
            done = _lib.bindings.anyflash_torch_write(_ROWS.pack(*addresses, *given, *in_cache))
            if not done:
                raise IndexError(f"slot_mapping: a slot is beyond the last of {pages} pages")

    def attend(self, scores, sinks, q, key, value, cache, out, f8=None):
        """Writes the attention of q [T, H, D] into out [T, H, D]. If key and value are given,
        they [T, G, D] are written into the cache before."""
        values, tokens, type_ = self.values, self.tokens, _TYPES.get(q.dtype)
        pages, groups, rows, width = cache.shape
        by_page, by_head, by_row, one = cache.stride()
        heads, dim = q.shape[1], q.shape[2]
        expected = q.dtype if f8 is None else torch.uint8
        if type_ is None:
            raise TypeError(f"query: is {q.dtype}, expected float32, float16 or bfloat16")
        if cache.dtype != expected or not cache.is_cpu:
            raise TypeError(
                f"cache: is {cache.dtype} on {cache.device}, expected {expected} on the CPU"
            )
        if rows != self.page_size or width != 2 * dim or by_row != width or one != 1:
            raise ValueError(
                f"cache: shape {tuple(cache.shape)} with strides {cache.stride()}, expected "
                f"(pages, heads, {self.page_size}, {2 * dim}) with contiguous heads"
            )
        at = cache.data_ptr()
        strides = f8.code if f8 else type_, 0, by_page, by_head, dim
        appended = (0,) * 13
        values[_LENGTHS] = self.lengths
        if key is not None and self.past is not None:
            k = _packed(key, "key", q, tokens, groups)
            v = _packed(value, "value", q, tokens, groups)
            # Packed [T, G, D] with a token of each request is [B, 1, G, D].
            appended = *k[:3], k[5], *k[4:], *v[:3], v[5], *v[4:], 1
            values[_LENGTHS] = ctypes.addressof(self.past)
        elif key is not None:
            self._write(q, key, value, cache, f8)
        values[_HEADS : _HEADS + 2] = heads, groups
        values[_DIMS : _DIMS + 2] = dim, dim
        values[_TENSORS : _TENSORS + 24] = (
            *_packed(q, "query", q, tokens, heads),
            *(at, *strides),
            *(at + rows * dim * cache.element_size(), *strides),
            *_packed(out, "output", q, tokens, heads),
        )
        values[_SCORES:_SINKS] = scores
        values[_SINKS] = 0 if sinks is None else sinks.data_ptr()
        values[_PAGES] = pages
        values[_NEW : _NEW + 13] = appended
        values[_SCALES : _SCALES + 2] = f8.addresses if f8 else (0, 0)
        _lib.attend(values, _threads)
