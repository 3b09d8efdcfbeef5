"""enable() for torch 2.6, whose C shim cannot register kernels: two Python kernels of
torch.library that hand the tensors to the same C code.
"""

import ctypes
import struct
import threading
import warnings

import torch

from . import _lib

_NAMES = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
)
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class _Stacks(threading.local):
    """Slots for the arguments of a call, and cells for its optional ones."""

    def __init__(self):
        self.slots = ctypes.create_string_buffer(10 * 8)
        self.cells = ctypes.create_string_buffer(2 * 8)
        self.slots_address = ctypes.addressof(self.slots)
        self.cells_address = ctypes.addressof(self.cells)


_stacks = _Stacks()
_PACK = {count: struct.Struct("=" + "Q" * count + "dQQQ") for count in (3, 6)}
_CELLS = struct.Struct("=Qd")

# torch hands out handles as capsules without a name.
_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _call(kernel, tensors, dropout_p, is_causal, attn_mask, scale, outputs):
    stacks, give = _stacks, torch._C._aoti.unsafe_alloc_void_ptr_from_tensor
    count = len(tensors)
    mask = _address(give(attn_mask), None) if attn_mask is not None else 0
    _CELLS.pack_into(stacks.cells, 0, mask, scale if scale is not None else 0.0)
    cells = stacks.cells_address
    _PACK[count].pack_into(
        stacks.slots,
        0,
        *[_address(give(t), None) for t in tensors],
        dropout_p,
        int(is_causal),
        cells if mask else 0,
        cells + 8 if scale is not None else 0,
    )
    kernel(stacks.slots_address, count + 4, outputs)
    take = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
    return tuple(
        [
            take(_capsule(handle, None, None))
            for handle in struct.unpack_from("=%dQ" % outputs, stacks.slots)
        ]
    )


def enable_in_python():
    """Registers; returns how to undo it. Raises RuntimeError where this torch is too old."""
    from .torch import libtorch_cpu

    kernels, error = (ctypes.c_void_p(), ctypes.c_void_p()), _lib._Error()
    enabling = _lib._library.anyflash_torch_kernels
    enabling.restype = ctypes.c_int
    if not hasattr(getattr(torch._C, "_aoti", None), "unsafe_alloc_void_ptr_from_tensor"):
        raise RuntimeError(
            f"torch {torch.__version__} has no handles for tensors; 2.6 is the oldest"
        )
    if enabling(
        ctypes.c_void_p(libtorch_cpu()._handle),
        ctypes.byref(kernels[0]),
        ctypes.byref(kernels[1]),
        ctypes.byref(error),
    ):
        raise RuntimeError(error.message.decode())
    forward, backward = (_KERNEL(kernel.value) for kernel in kernels)

    def attend(
        query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
    ):
        return _call(forward, (query, key, value), dropout_p, is_causal, attn_mask, scale, 2)

    def attend_backward(
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        dropout_p,
        is_causal,
        *,
        attn_mask=None,
        scale=None,
    ):
        return _call(
            backward,
            (grad_out, query, key, value, out, logsumexp),
            dropout_p,
            is_causal,
            attn_mask,
            scale,
            3,
        )

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():  # that a kernel is replaced is what was asked for
        warnings.simplefilter("ignore")
        for name, kernel in zip(_NAMES, (attend, attend_backward)):
            library.impl(name, kernel, "CPU")
    return library._destroy
