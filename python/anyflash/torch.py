"""The engine as torch's attention on the CPU: enable(), disable(), enabled().

    import anyflash.torch
    anyflash.torch.enable()     # F.scaled_dot_product_attention on CPU tensors
    ...
    anyflash.torch.disable()

Besides F.scaled_dot_product_attention this gives the CPU torch's FlashAttention
operators, which torch.nn.attention.varlen calls: varlen_attn() packed, paged, windowed,
with a gradient. What the engine does not take of the former goes to torch's own kernel
unchanged; of the latter, for which torch has no kernel on the CPU, it is a RuntimeError.

From torch 2.11 on the same stands in torch's registry under the name "ANYFLASH", for
torch.nn.attention.activate_flash_attention_impl().

The switch is of the process, not of a thread. From torch 2.7 on C functions are registered
through torch's stable C shim; torch 2.4 to 2.6 get Python kernels. torch.compile with
cpp_wrapper, and AOTInductor packages, call torch's kernel directly and never come here.
"""

import contextlib
import ctypes
import functools
import threading
from typing import Iterator, Tuple

import torch

from . import _lib
from ._libtorch import libtorch_cpu

_SDPA, _FLASH, _FLASH_OUT = 1, 2, 4  # enum anyflash_torch_operators

#: The arguments of _flash_attention_forward in torch 2.15; older ones end earlier.
_FORWARD = (
    "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal return_debug_mask "
    "scale window_size_left window_size_right seqused_k alibi_slopes block_table num_splits"
).split()
_BACKWARD = (
    "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p "
    "is_causal rng_state unused scale window_size_left window_size_right"
).split()

_turn = threading.Lock()
_holders = set()  # who wants the engine: enable(), each enabled(), torch's registry
_switch = None  # what switches it off, once it has been on


def _takes(operator, known, least):
    """Does this torch have the operator, with the arguments that the kernels know?"""
    packet = getattr(torch.ops.aten, operator, None)
    if packet is None:
        return False
    names = [argument.name for argument in packet.default._schema.arguments]
    return len(names) >= least and names == known[: len(names)]


def _operators():
    """What to take over in this torch, as bits."""
    bits = _SDPA
    if _takes("_flash_attention_forward", _FORWARD, 15) and _takes(
        "_flash_attention_backward", _BACKWARD, 17
    ):
        bits |= _FLASH
    if _takes("_flash_attention_forward_no_dropout_inplace", ["out", *_FORWARD], 16):
        bits |= _FLASH_OUT
    return bits


def _switch_off(disable, withdraw):
    """Where only this thread can be calling FlashAttention's operators, they are torch's own
    again; its dispatcher does not let a kernel be taken away while another thread calls it."""
    disable()
    if threading.active_count() == 1:
        withdraw()


def _switch_on():
    """Switches on, in C or else in Python; returns how to switch off."""
    error, library = _lib._Error(), _lib.bindings
    library.anyflash_torch_enable.restype = ctypes.c_int
    library.anyflash_torch_enable.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    disable, withdraw = library.anyflash_torch_disable, library.anyflash_torch_withdraw
    disable.restype = withdraw.restype = None
    operators = _operators()
    if not hasattr(libtorch_cpu(), "aoti_torch_library_impl"):
        from ._torch_library import enable_in_python, withdraw

        enable_in_python(is_enabled)
        operators = 0  # only the switch
    if library.anyflash_torch_enable(
        libtorch_cpu()._handle, operators, ctypes.addressof(error)
    ):
        raise RuntimeError(error.message.decode())
    return functools.partial(_switch_off, disable, withdraw)


def _hold(holder):
    global _switch
    with _turn:
        if not _holders:
            _switch = _switch_on()
        _holders.add(holder)


def _let_go(holder):
    with _turn:
        if holder in _holders:
            _holders.discard(holder)
            if not _holders:
                _switch()


def enable() -> None:
    """Lets torch's attention on CPU tensors use the engine. Twice is once.

    Raises RuntimeError with the reason where this torch has no place for it. Call it first
    before other threads compute: torch's dispatcher takes no new kernel while it is in use.
    """
    _hold("enable")


def disable() -> None:
    """Takes enable() back. Calls that are running, in any thread, end normally.

    What a `with enabled()` block or torch's registry holds as well stays on until that ends.
    F.scaled_dot_product_attention is torch's own again; FlashAttention's operators raise
    torch's NotImplementedError, or, where Python has other threads, a RuntimeError.
    """
    _let_go("enable")


def is_enabled() -> bool:
    """Whether the engine is asked: by enable(), by a block, or by torch's registry."""
    return bool(_holders)


@contextlib.contextmanager
def enabled() -> Iterator[None]:
    """enable() for a `with` block; the process as a whole sees it, not only this thread."""
    holder = object()
    _hold(holder)
    try:
        yield
    finally:
        _let_go(holder)


def counts() -> Tuple[int, int]:
    """(calls, passed_on): calls that came while on, and those that torch's kernel did."""
    calls, passed_on = ctypes.c_uint64(), ctypes.c_uint64()
    _lib.bindings.anyflash_torch_counts(ctypes.byref(calls), ctypes.byref(passed_on))
    return calls.value, passed_on.value


class _Active:
    """What torch's registry keeps while "ANYFLASH" is active."""

    def __init__(self):
        _hold(self)

    def remove(self):
        _let_go(self)


def _register():
    """Our name in torch's registry; nothing is switched on."""
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError:  # torch before 2.11
        return
    register_flash_attention_impl("ANYFLASH", register_fn=_Active)


_register()
