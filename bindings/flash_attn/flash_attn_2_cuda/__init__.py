"""The five functions under flash_attn, over libanyflash_cuda, which needs no torch.

In a wheel of ours this package replaces flash-attn's own extension, which is compiled for one
torch and one Python. Arguments, results and the texts of errors are the same. The library makes
the functions itself (bindings/flash_attn/functions.c): fwd, varlen_fwd, bwd, varlen_bwd and
fwd_kvcache. Here is what they seldom need.

Two things differ. Gradients of grouped heads are summed by a kernel of the library, so
their last bit may differ. While a CUDA graph is captured, torch.randint draws the seed of
dropout.
"""

import ctypes
import os
import sys

import torch
from torch.nn.functional import pad

_WINDOWS = os.name == "nt"
_ON_CPU = False # tests, which start no kernel, pass tensors on the CPU
_Tensor = torch.Tensor
_handles = getattr(torch._C, "_aoti", None)
_wrap = getattr(_handles, "alloc_tensor_by_stealing_from_void_ptr", None) # it copies the handle
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda device: torch.cuda.current_stream(device).cuda_stream)
_empty_like = torch.empty_like


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 400)]


def _torch_library():
    """The library that exports torch's C shim; dlsym() searches what it needs, too."""
    if not _WINDOWS:
        return ctypes.CDLL(torch._C.__file__)
    return ctypes.WinDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "torch_cpu.dll"))


def _load():
    name = "anyflash_cuda.dll" if _WINDOWS else "libanyflash_cuda.so"
    library = ctypes.PyDLL(os.path.join(os.path.dirname(__file__), name))
    error = _Error()
    status = library.anyflash_python_flash_attn(
        ctypes.c_void_p(ctypes.pythonapi._handle), ctypes.c_void_p(_torch_library()._handle),
        ctypes.py_object(sys.modules[__name__]), ctypes.byref(error))
    if status or _wrap is None:
        what = error.message.decode() if status else "this torch does not export _aoti"
        raise ImportError(f"{what}: Python {sys.version.split()[0]}, torch "
                          f"{torch.__version__}; 2.4 is the oldest torch supported")
    return library


_library = _load()


def contents():
    """What the kernels' file contains, as text: passes, head sizes and types."""
    text = ctypes.create_string_buffer(8192)
    _library.anyflash_cuda_contents(text, ctypes.c_size_t(len(text)))
    return text.value.decode()


def _reserve(q, size_bytes):
    """Raises torch's error if a new tensor finds no memory."""
    return q.new_empty(size_bytes, dtype=torch.uint8)


def _random(generator, q, increment):
    """Dropout's seed and offset from torch's generator, and 0; or 0, 0 and their address."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        pair = torch.randint(1 << 62, (2,), dtype=torch.int64, device=q.device)
        return 0, 0, pair.data_ptr(), pair
    generator = generator or torch.cuda.default_generators[q.get_device()]
    offset = generator.get_offset()
    generator.set_offset(offset + increment)
    return generator.initial_seed(), offset, 0


def _padded(q, kcache, vcache, k, v, *rest):
    """Pads the head size to a multiple of 8 and calls fwd_kvcache()."""
    dim = q.shape[-1]
    work = [each if each is None else pad(each, (0, -dim % 8))
            for each in (q, kcache, vcache, k, v)]
    out = rest[7]
    result, lse = fwd_kvcache(*work, *rest[:7], None, *rest[8:])
    result = result[..., :dim]
    if out is not None:
        out.copy_(result)
    if k is not None:
        kcache.copy_(work[1][..., :dim])
        vcache.copy_(work[2][..., :dim])
    return [result, lse]
