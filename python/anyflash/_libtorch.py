"""libtorch_cpu, which a process with torch has loaded, and the C kernels that need its handle.

    libtorch_cpu()._handle          # what the C functions of the binding take
    with only_errors_logged():      # what torch's C++ code prints to stderr
    attend = caller(ATTEND)         # a C kernel as a builtin, for torch 2.4 to 2.6

The lowest of the modules for torch: _torch_ops.py, _torch_library.py and torch.py build on it.
"""

import contextlib
import ctypes
import os

import torch

from . import _lib, _loader

#: enum anyflash_torch_callable
SDPA, SDPA_BACKWARD, ATTEND, ATTEND_DENSE, ATTEND_BACKWARD = range(5)


def libtorch_cpu():
    """torch's library, as ctypes sees it."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    return ctypes.CDLL(os.path.join(folder, _loader.file_name("torch_cpu")))


#: The severity of an error in c10/util/Logging.h; a warning is 1.
_LOG_ERROR = 2


@contextlib.contextmanager
def only_errors_logged():
    """Raises the threshold of torch's C++ log for the block.

    It is one number for the whole process. A torch that was built with glog has another one:
    there nothing changes.
    """
    try:
        threshold = ctypes.c_int.in_dll(libtorch_cpu(), "FLAGS_caffe2_log_level")
    except ValueError:
        threshold = ctypes.c_int()
    before = threshold.value
    threshold.value = max(before, _LOG_ERROR)
    try:
        yield
    finally:
        threshold.value = before


def caller(kernel):
    """The C kernel as a builtin: all arguments of its operator by position, a tuple of tensors
    back, or None for arguments that are wrong or not supported, or if there is no engine.

    Raises RuntimeError for a torch that has no handles for tensors.
    """
    if _lib.missing:
        return lambda *arguments: None
    handles, error = getattr(torch._C, "_aoti", None), _lib._Error()
    if not hasattr(handles, "unsafe_alloc_void_ptr_from_tensor"):
        raise RuntimeError(
            f"torch {torch.__version__} has no handles for tensors; 2.4 is the oldest supported"
        )
    make = ctypes.PyDLL(None, handle=_lib.bindings._handle).anyflash_torch_caller
    make.restype = ctypes.c_void_p  # as a py_object, NULL would crash ctypes
    made = make(
        ctypes.c_void_p(ctypes.pythonapi._handle),
        ctypes.c_void_p(libtorch_cpu()._handle),
        kernel,
        ctypes.py_object(handles.unsafe_alloc_void_ptr_from_tensor),
        ctypes.py_object(handles.alloc_tensor_by_stealing_from_void_ptr),
        ctypes.byref(error),
    )
    if made is None:
        raise RuntimeError(error.message.decode())
    return ctypes.cast(made, ctypes.py_object).value  # one reference stays: kernels do, too
