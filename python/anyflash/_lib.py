"""libanyflash by ctypes: the argument struct, contexts, errors. Needs no other package.

The struct of anyflash.h is written by one struct.Struct.pack_into per call: setting a hundred
ctypes fields one by one would cost more than a small attention.
"""

import ctypes
import os
import struct
import sys
import threading

from . import _loader

F32, F16, BF16, BOOL, F8_E4M3, F8_E5M2 = 1, 2, 3, 4, 5, 6

#: Members of struct anyflash_attend_args in order: name and struct format.
_TENSOR = "Pii3q"
_MEMBERS = (
    ("struct_size", "N"),
    ("batch", "q"),
    ("heads", "q"),
    ("kv_heads", "q"),
    ("q_len", "q"),
    ("k_len", "q"),
    ("head_dim", "q"),
    ("value_dim", "q"),
    ("q", _TENSOR),
    ("k", _TENSOR),
    ("v", _TENSOR),
    ("o", _TENSOR),
    ("lse", "P"),
    ("lse_batch_stride", "q"),
    ("lse_head_stride", "q"),
    ("scale", "f"),
    ("softcap", "f"),
    ("causal", "i"),
    ("align", "i"),
    ("window_left", "q"),
    ("window_right", "q"),
    ("causal_offsets", "P"),
    ("alibi_slopes", "P"),
    ("alibi_batch_stride", "q"),
    ("sinks", "P"),
    ("bias", _TENSOR),
    ("mask", _TENSOR),
    ("cu_seqlens_q", "P"),
    ("cu_seqlens_k", "P"),
    ("total_q", "q"),
    ("total_k", "q"),
    ("seqused_q", "P"),
    ("seqused_k", "P"),
    ("leftpad_k", "P"),
    ("cache_batch_idx", "P"),
    ("cache_batch", "q"),
    ("block_table", "P"),
    ("block_table_stride", "q"),
    ("page_size", "q"),
    ("page_count", "q"),
    ("k_new", _TENSOR),
    ("v_new", _TENSOR),
    ("new_len", "q"),
    ("rotary_cos", "P"),
    ("rotary_sin", "P"),
    ("rotary_rows", "q"),
    ("rotary_dim", "q"),
    ("rotary_interleaved", "i"),
    ("dropout", "f"),
    ("dropout_seed", "Q"),
    ("dropout_offset", "Q"),
    ("k_scales", "P"),
    ("v_scales", "P"),
    ("scale_stride", "q"),
    ("scale_per_page", "i"),
    ("reserved", "i"),
)
_FORMAT = struct.Struct("@" + "".join(letters for _, letters in _MEMBERS))
_BACKWARD = struct.Struct("@NP" + _TENSOR * 5 + "PP")

#: Index of each member's first value among the values that are packed.
AT = {}
for _name, _letters in _MEMBERS:
    AT[_name] = sum(
        len(struct.unpack("@" + l, bytes(struct.calcsize("@" + l))))
        for _, l in _MEMBERS[: len(AT)]
    )
_EMPTY = [0] * len(_FORMAT.unpack(bytes(_FORMAT.size)))
#: ANYFLASH_SCALE_DEFAULT, which C reads as 1 / sqrt(D); here the default is None.
DEFAULT_SCALE = 3.0e38


def engine_scale(scale):
    """The scale as C takes it."""
    if scale is None:
        return DEFAULT_SCALE
    scale = float(scale)
    if scale == DEFAULT_SCALE:
        raise ValueError(f"scale: must be -1e38 to 1e38, not {scale!r}")
    return scale


_EMPTY[AT["scale"]] = DEFAULT_SCALE
_EMPTY[AT["struct_size"]] = _FORMAT.size
_EMPTY[AT["window_left"]] = _EMPTY[AT["window_right"]] = -1


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 400)]


class _ContextArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("cpu_level", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("parallel", ctypes.c_void_p),
    ]


#: Exceptions by enum anyflash_status; any other status is a RuntimeError.
_EXCEPTIONS = {1: ValueError, 2: MemoryError, 8: NotImplementedError}


#: missing: None, or why there is no engine, as the end of a sentence about it.
_library, bindings, missing = _loader.load()
_attend = _library.anyflash_attend
_backward = _library.anyflash_attend_backward


def _builtin():
    """attend() of anyflash_python.h, or None if this interpreter does not support it."""
    if missing or sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return None
    make = ctypes.PyDLL(None, handle=bindings._handle).anyflash_python_attend
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p]
    try:
        return make(ctypes.pythonapi._handle, None)
    except ValueError:  # ctypes raises it for NULL
        return None


#: attend(q, k, v, layout, out, return_lse, context's address, options) in C; returns None for
#: arguments that it does not support.
fast_attend = _builtin() or (lambda *arguments: None)


def values():
    """A new list of values for the struct, the same as ANYFLASH_ATTEND_ARGS_INIT."""
    return _EMPTY[:]


def _fail(status, error):
    from ._messages import in_python  # not needed by calls that succeed

    message = in_python(error.message.decode("utf-8", "replace"))
    raise _EXCEPTIONS.get(status, RuntimeError)(message)


class _Local(threading.local):
    """Buffers of one thread, so that a call needs no allocation and no lock."""

    def __init__(self):
        self.forward = ctypes.create_string_buffer(_FORMAT.size)
        self.forward_address = ctypes.c_void_p(ctypes.addressof(self.forward))
        self.backward = ctypes.create_string_buffer(_BACKWARD.size)
        self.backward_address = ctypes.c_void_p(ctypes.addressof(self.backward))
        self.error = _Error()
        self.error_address = ctypes.c_void_p(ctypes.addressof(self.error))


_local = _Local()


class _Context:
    """A thread pool of the engine; created at the first call. `count` and `cpu_level` are as in
    struct anyflash_context_args."""

    def __init__(self, count=0, cpu_level=0):
        self.lock = threading.Lock()
        self.handle = None
        self.address = None  # of the handle, as an int
        self.count = count
        self.cpu_level = cpu_level

    def get(self):
        return self.handle or self.make()

    def make(self):
        with self.lock:
            if self.handle is None:
                args = _ContextArgs(
                    struct_size=ctypes.sizeof(_ContextArgs),
                    threads=self.count,
                    cpu_level=self.cpu_level,
                )
                handle, error = ctypes.c_void_p(), _Error()
                status = _library.anyflash_context_new(
                    ctypes.byref(args), ctypes.byref(handle), ctypes.byref(error)
                )
                if status:
                    _fail(status, error)
                self.handle, self.address = handle, handle.value
            return self.handle

    def __del__(self, free=_library.anyflash_context_free):
        if self.handle is not None:
            free(self.handle)


_context = _Context()  # that of this process


def _forget_context():
    """In a forked child: forgets the pool, which has no threads there, without freeing it."""
    global _context
    old, _context = _context, _Context(_context.count)
    old.handle = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_context)


def set_threads(count: int) -> None:
    """Sets the number of threads; 0: all cores that affinity and cgroup allow.

    >>> anyflash.set_threads(4)

    Running calls finish on the old threads. Raises ValueError for a negative count.
    """
    global _context
    if count < 0:
        raise ValueError(f"threads must be 0 or more, not {count}")
    new = _Context(int(count))
    new.make()
    _context = new


def threads() -> int:
    """The number set by set_threads(); 0: all usable cores.

    >>> anyflash.threads()
    0
    """
    return _context.count


def attend(packed, threads_of=None):
    """anyflash_attend() with the values of values().

    `threads_of`: an object whose get() returns a context; None: this module's own.
    """
    local, context = _local, threads_of or _context  # a reference: set_threads() may be called
    _FORMAT.pack_into(local.forward, 0, *packed)
    status = _attend(context.get(), local.forward_address, local.error_address)
    if status:
        _fail(status, local.error)


def attend_backward(packed, dout, dq, dk, dv, dbias, dsinks, dlse, threads_of=None):
    """anyflash_attend_backward(): tensors as 6 values each, pointers as addresses or 0."""
    local, context = _local, threads_of or _context
    _FORMAT.pack_into(local.forward, 0, *packed)
    _BACKWARD.pack_into(
        local.backward,
        0,
        _BACKWARD.size,
        local.forward_address.value,
        *dout,
        *dq,
        *dk,
        *dv,
        *dbias,
        dsinks,
        dlse,
    )
    status = _backward(context.get(), local.backward_address, local.error_address)
    if status:
        _fail(status, local.error)


def _large_problem():
    """values() of causal attention in bfloat16: 16 heads, 512 tokens, head size 128."""
    packed = values()
    for member, value in (("batch", (1, 16, 16, 512, 512, 128, 128)), ("causal", (1,))):
        packed[AT[member] : AT[member] + len(value)] = value
    for place, member in enumerate("qkvo", 1):  # distinct addresses, which are never read
        packed[AT[member] : AT[member] + 6] = (place << 40, BF16, 0, 512 * 2048, 128, 2048)
    return packed


def explain_kernel(packed: "list | None" = None, _threads_of: object = None) -> str:
    """The kernel that would run for a list of values(), and why faster ones decline, as text.
    Without a list: for a large causal problem in bfloat16.

    >>> print(anyflash.explain_kernel().splitlines()[0])
    """
    local, text = _local, ctypes.create_string_buffer(4096)
    _FORMAT.pack_into(local.forward, 0, *(packed or _large_problem()))
    status = _library.anyflash_explain(
        (_threads_of or _context).get(),
        local.forward_address,
        text,
        ctypes.c_size_t(len(text)),
        local.error_address,
    )
    if status:
        _fail(status, local.error)
    return text.value.decode()
