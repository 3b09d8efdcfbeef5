"""enable() for torch 2.4 to 2.6, whose C shim cannot register kernels: Python kernels of
torch.library. Those of F.scaled_dot_product_attention hand the tensors to the same C code,
and stay registered once they are: torch's dispatcher does not let one be taken away while
other threads call it.
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
    handles = struct.unpack_from("=%dQ" % outputs, stacks.slots)
    if not handles[0]:
        raise RuntimeError("anyflash: torch's attention on the CPU refused its arguments")
    take = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
    return tuple([take(_capsule(handle, None, None)) for handle in handles])


def _laid_out_as(model, result):
    """The result in the memory order that torch's Meta kernels promise."""
    if result.stride() == torch.empty_like(model).stride():
        return result
    return torch.empty_like(model).copy_(result)


def _flash_forward(
    query,
    key,
    value,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    return_debug_mask,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
    seqused_k=None,
    alibi_slopes=None,
):
    """aten::_flash_attention_forward of torch 2.4 to 2.6."""
    from . import _torch_ops

    if return_debug_mask:
        raise RuntimeError("anyflash: return_debug_mask is not for the CPU")
    seed = torch.randint(2**62, ()) if dropout_p > 0 else torch.zeros((), dtype=torch.long)
    with torch.no_grad():
        out, lse = _torch_ops.attend(
            query,
            key,
            value,
            cum_seq_q,
            cum_seq_k,
            max_q,
            max_k,
            seqused_k,
            None,
            None,
            alibi_slopes,
            None,
            query.shape[-1] ** -0.5 if scale is None else scale,
            is_causal,
            -1 if window_size_left is None else window_size_left,
            -1 if window_size_right is None else window_size_right,
            0.0,
            dropout_p,
            int(seed),
        )
    lse.masked_fill_(lse == -torch.inf, torch.inf)
    unused = torch.zeros((), dtype=torch.long)
    return _laid_out_as(query, out), lse, seed, unused, query.new_empty(0)


def _flash_backward(
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    philox_seed,
    philox_offset,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
):
    """aten::_flash_attention_backward of torch 2.4 to 2.6."""
    with torch.no_grad():
        gradients = torch.ops.anyflash.attend_backward(
            grad_out,
            query,
            key,
            value,
            out,
            logsumexp,
            cum_seq_q,
            cum_seq_k,
            max_q,
            max_k,
            None,
            None,
            None,
            None,
            None,
            query.shape[-1] ** -0.5 if scale is None else scale,
            is_causal,
            -1 if window_size_left is None else window_size_left,
            -1 if window_size_right is None else window_size_right,
            0.0,
            dropout_p,
            int(philox_seed) if dropout_p > 0 else 0,
        )
    return tuple(_laid_out_as(*pair) for pair in zip((query, key, value), gradients))


def _only_when_on(kernel):
    """The kernel, or the answer of a torch without it while the engine is switched off."""

    def guarded(*args, **options):
        from .torch import is_enabled

        if not is_enabled():
            raise NotImplementedError(
                "anyflash is disabled, and torch has no FlashAttention for the CPU"
            )
        return kernel(*args, **options)

    return guarded


def _kernels():
    """The C kernels of SDPA as functions; switches the engine on."""
    from .torch import libtorch_cpu

    kernels, error = (ctypes.c_void_p(), ctypes.c_void_p()), _lib._Error()
    enabling = _lib._library.anyflash_torch_kernels
    enabling.restype = ctypes.c_int
    if not hasattr(getattr(torch._C, "_aoti", None), "unsafe_alloc_void_ptr_from_tensor"):
        raise RuntimeError(
            f"torch {torch.__version__} has no handles for tensors; 2.4 is the oldest"
        )
    if enabling(
        ctypes.c_void_p(libtorch_cpu()._handle),
        ctypes.byref(kernels[0]),
        ctypes.byref(kernels[1]),
        ctypes.byref(error),
    ):
        raise RuntimeError(error.message.decode())
    return [_KERNEL(kernel.value) for kernel in kernels]


# The torch.library.Library objects: of SDPA, which lives as long as the process, and of
# FlashAttention, until it is withdrawn.
_registered = _flash = None


def _register_flash():
    global _flash
    if _flash is None:
        library = torch.library.Library("aten", "IMPL")
        library.impl("_flash_attention_forward", _only_when_on(_flash_forward), "CPU")
        library.impl("_flash_attention_backward", _only_when_on(_flash_backward), "CPU")
        _flash = library


def withdraw():
    """Takes FlashAttention's kernels from the dispatcher; no other thread may call them."""
    global _flash
    if _flash is not None:
        _flash._destroy()
        _flash = None


def enable_in_python():
    """Registers the first time. Raises RuntimeError where this torch is too old."""
    global _registered
    forward, backward = _kernels()
    _register_flash()
    if _registered is not None:
        return

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
    _registered = library
