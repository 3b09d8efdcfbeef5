"""Arrays of other packages as address, type, shape and strides, without importing any of them.

NumPy (with ml_dtypes also bfloat16), torch CPU tensors, and anything with __dlpack__. A View
keeps its array alive. New arrays come from the package of the array that they are like, or
from NumPy.
"""

import ctypes
import sys

from ._lib import BF16, BOOL, F8_E4M3, F8_E5M2, F16, F32

_NUMPY_TYPES = {
    "float32": F32,
    "float16": F16,
    "bfloat16": BF16,
    "float8_e4m3fn": F8_E4M3,
    "float8_e5m2": F8_E5M2,
    "bool": BOOL,
    "int32": "int32",
}
_SIZES = {F32: 4, F16: 2, BF16: 2, F8_E4M3: 1, F8_E5M2: 1, BOOL: 1, "int32": 4}
_TYPE_NAMES = {dtype: name for name, dtype in _NUMPY_TYPES.items()}


class View:
    """Address, type (F32, ..., or "int32"), shape and strides in elements of an array."""

    __slots__ = ("address", "dtype", "shape", "strides", "array")

    def __init__(self, address, dtype, shape, strides, array):
        self.address, self.dtype, self.array = address, dtype, array
        self.shape, self.strides = shape, strides


def type_name(dtype):
    return _TYPE_NAMES[dtype]


def _expected(dtype, found, name, dtypes):
    """dtype, if it is one of dtypes. `found` is what its own package calls it."""
    if dtype not in dtypes:
        *most, last = map(type_name, dtypes)
        allowed = f"{', '.join(most)} or {last}" if most else last
        raise TypeError(f"{name}: element type {found}, expected {allowed}")
    return dtype


def _of_numpy(array, name, dtypes):
    dtype, found = _NUMPY_TYPES.get(array.dtype.name), array.dtype.name
    if not array.dtype.isnative:
        dtype, found = None, f"{found} in the byte order of other processors"
    _expected(dtype, found, name, dtypes)
    size = _SIZES[dtype]
    strides = array.strides
    if any(s % size for s in strides):
        raise ValueError(
            f"{name}: strides {strides} are not multiples of the element size {size}"
        )
    return View(
        array.__array_interface__["data"][0],
        dtype,
        array.shape,
        tuple([s // size for s in strides]),
        array,
    )


def _torch_types():
    torch = sys.modules["torch"]  # whose older versions lack fp8
    names = [name for name in _NUMPY_TYPES if hasattr(torch, name)]
    return {getattr(torch, name): _NUMPY_TYPES[name] for name in names}


_torch_table = {}


def _of_torch(tensor, name, dtypes):
    if tensor.device.type != "cpu":
        raise ValueError(f"{name}: is on {tensor.device}, but the engine computes on the CPU")
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise ValueError(
            f"{name}: requires a gradient; use anyflash.flash_attn_func, or detach()"
        )
    if not _torch_table:
        _torch_table.update(_torch_types())
    dtype = _expected(_torch_table.get(tensor.dtype), tensor.dtype, name, dtypes)
    return View(tensor.data_ptr(), dtype, tuple(tensor.shape), tensor.stride(), tensor)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DLPACK_CPU = 1
#: By DLDataTypeCode (kDLFloat, kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2, kDLBool, kDLInt)
#: and bits.
_DLPACK_TYPES = {
    (2, 32): F32,
    (2, 16): F16,
    (4, 16): BF16,
    (10, 8): F8_E4M3,
    (12, 8): F8_E5M2,
    (6, 8): BOOL,
    (0, 32): "int32",
}


def _of_dlpack(array, name, dtypes):
    device = array.__dlpack_device__()
    if int(device[0]) != _DLPACK_CPU:
        raise ValueError(
            f"{name}: is on DLPack device {tuple(map(int, device))}, not on the CPU"
        )
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    dtype = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    found = f"DLPack type code {tensor.code} of {tensor.bits} bits"
    _expected(dtype, found, name, dtypes)
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(tensor.strides[: tensor.ndim])
    else:
        strides, step = [], 1
        for extent in reversed(shape):
            strides.insert(0, step)
            step *= extent
        strides = tuple(strides)
    # The capsule is not consumed: it owns the memory as long as the View exists.
    return View(
        tensor.data + tensor.byte_offset if tensor.data else 0,
        dtype,
        shape,
        strides,
        (array, capsule),
    )


def view(array, name, dtypes=tuple(_SIZES)):
    """The array as a View; raises TypeError for other objects and element types."""
    package = type(array).__module__.partition(".")[0]
    if package == "torch" and hasattr(array, "data_ptr"):
        return _of_torch(array, name, dtypes)
    if hasattr(array, "__array_interface__"):
        return _of_numpy(array, name, dtypes)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, name, dtypes)
    raise TypeError(f"{name}: {type(array).__name__} is not an array")


def is_writable(array):
    """False for an array that is marked read-only, with flags like NumPy's."""
    return getattr(getattr(array, "flags", None), "writeable", True) is not False


def new_like(model, shape, dtype):
    """A new contiguous array of F32, F16 or BF16, from the package of the array `model`."""
    package = type(model).__module__.partition(".")[0]
    if package == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, _TYPE_NAMES[dtype]))
    import numpy

    if dtype == BF16:
        import ml_dtypes

        return numpy.empty(shape, dtype=ml_dtypes.bfloat16)
    return numpy.empty(shape, dtype=_TYPE_NAMES[dtype])
