"""The engine as torch's attention on the CPU: enable(), disable(), enabled().

    import anyflash.torch
    anyflash.torch.enable()     # F.scaled_dot_product_attention on CPU tensors
    ...
    anyflash.torch.disable()

What the engine does not take goes to torch's own kernel unchanged. The switch is
of the process, not of a thread. From torch 2.7 on C functions are registered
through torch's stable C shim; torch 2.4 to 2.6 get Python kernels.

torch.compile with cpp_wrapper, and AOTInductor packages, call torch's kernel
directly and never come here.
"""

import contextlib
import ctypes
import os
import threading

import torch

from . import _lib

_turn = threading.Lock()
_undo = None  # how to take back what enable() did; None: not enabled


def libtorch_cpu():
    """torch's library, which is loaded already."""
    return ctypes.CDLL(
        os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    )


def _enable_in_c():
    """Registers the C kernels; returns how to undo it, or the reason why not, as text."""
    error = _lib._Error()
    library = _lib._library
    library.anyflash_torch_enable.restype = ctypes.c_int
    library.anyflash_torch_enable.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.anyflash_torch_disable.restype = None
    if library.anyflash_torch_enable(libtorch_cpu()._handle, ctypes.addressof(error)):
        return error.message.decode()
    return library.anyflash_torch_disable


def enable():
    """Lets F.scaled_dot_product_attention on CPU tensors use the engine. Twice is once.

    Raises RuntimeError with the reason where this torch has no place for it.
    """
    global _undo
    with _turn:
        if _undo is not None:
            return
        undo = _enable_in_c()
        if isinstance(undo, str):
            from ._torch_library import enable_in_python

            undo = enable_in_python()
        _undo = undo


def disable():
    """Takes enable() back. Calls that are running end normally."""
    global _undo
    with _turn:
        undo, _undo = _undo, None
        if undo is not None:
            undo()


def is_enabled():
    return _undo is not None


@contextlib.contextmanager
def enabled():
    """enable() for a `with` block; the process as a whole sees it, not only this thread."""
    before = is_enabled()
    enable()
    try:
        yield
    finally:
        if not before:
            disable()


def counts():
    """(calls, passed_on): calls of the C kernels, and those that torch's kernel did."""
    calls, passed_on = ctypes.c_uint64(), ctypes.c_uint64()
    _lib._library.anyflash_torch_counts(ctypes.byref(calls), ctypes.byref(passed_on))
    return calls.value, passed_on.value
