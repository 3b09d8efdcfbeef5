"""The engine as torch's attention on the CPU: enable(), disable(), enabled(), explain().

    import anyflash.torch
    anyflash.torch.enable()     # F.scaled_dot_product_attention on CPU tensors
    ...
    anyflash.torch.disable()

If the engine does not support a call, it goes unchanged to torch's own kernel. Some calls never
arrive, because torch chooses another kernel first; explain() names them. Packed sequences
are computed by the functions of anyflash.flash_attn.

From torch 2.11 on it is also registered with torch under the name "ANYFLASH", for
torch.nn.attention.activate_flash_attention_impl().

On processors that anyflash was not benchmarked on, enable() first measures for some
milliseconds whether the engine is faster than torch's own kernel, in prefill and in decode.
Where it is not, torch keeps the calls: explain() says what was decided.

It applies to the whole process, not to one thread. From torch 2.7 on C functions are registered
through torch's stable C shim; torch 2.4 to 2.6 get Python kernels. torch.compile with
cpp_wrapper, and AOTInductor packages, call torch's kernel directly, not the engine.
"""

import contextlib
import ctypes
import threading
from typing import Iterator, Tuple

import torch

from . import _calibration, _lib
from ._libtorch import libtorch_cpu, only_errors_logged

#: Calls for which torch chooses its math kernel before it asks for anything else.
_NEVER_ASKED = (
    "torch computes the backward of float32 calls with up to 32 queries: it is faster there\n"
    "torch computes by its math kernel, without asking anyflash and without counting: dropout, "
    "a head size of v that is not that of q, a mask that requires a gradient or has 3 "
    "dimensions, a last dimension with a stride"
)

_lock = threading.Lock()
_holders = set()  # the users of the engine: enable(), each enabled(), torch's registry
_disable_engine = None  # the function that disables the engine, once it has been enabled
_choices = {}  # by number of threads: what calibration decided in this process
_choice = None  # the _calibration.Choice in use
_trials = (0, 0)  # what calibration added to the library's counts


def _start():
    """Enables the engine, in C or else in Python; returns the function that disables it."""
    if _lib.missing:
        raise ImportError(f"anyflash's engine {_lib.missing}")
    error, library = _lib._Error(), _lib.bindings
    library.anyflash_torch_enable.restype = ctypes.c_int
    library.anyflash_torch_enable.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.anyflash_torch_disable.restype = None
    if not hasattr(libtorch_cpu(), "aoti_torch_library_impl"):
        from ._torch_library import register

        register()
    with only_errors_logged():  # torch 2.9 warns of a kernel that replaces its own
        failed = library.anyflash_torch_enable(
            libtorch_cpu()._handle, ctypes.addressof(error)
        )
    if failed:
        raise RuntimeError(error.message.decode())
    return library.anyflash_torch_disable


def _choose(calibrate):
    global _choice, _trials
    threads = torch.get_num_threads()
    if not calibrate:
        _choice = _calibration.UNMEASURED
    else:
        if threads not in _choices:
            before = counts()
            _choices[threads] = _calibration.choose(threads)
            _trials = tuple(t + c - b for t, c, b in zip(_trials, counts(), before))
        _choice = _choices[threads]
    _choice.apply()


def _hold(holder, calibrate=True):
    global _disable_engine
    with _lock:
        if not _holders:
            _disable_engine = _start()
            _choose(calibrate)
        _holders.add(holder)


def _let_go(holder):
    with _lock:
        if holder in _holders:
            _holders.discard(holder)
            if not _holders:
                _disable_engine()


def enable(*, calibrate: bool = True) -> None:
    """Makes torch's attention on CPU tensors use the engine. Idempotent.

    >>> anyflash.torch.enable()         # disable() undoes it

    calibrate=False: the engine computes every call that it supports, without being measured
    against torch, and even if it was slower. This has no effect while the engine is enabled.

    Raises RuntimeError with the reason if this torch does not support it, ImportError if this
    installation of anyflash has no engine. Call it for the first
    time before other threads compute: torch's dispatcher takes no new kernel while in use.
    """
    _hold("enable", calibrate)


def disable() -> None:
    """Undoes enable(). Running calls, in any thread, finish normally.

    >>> anyflash.torch.disable()

    The engine stays enabled as long as a `with enabled()` block or torch's registry needs it.
    Then F.scaled_dot_product_attention is torch's own again.
    """
    _let_go("enable")


def is_enabled() -> bool:
    """Whether the engine is in use: by enable(), a block, or torch's registry.

    >>> anyflash.torch.is_enabled()
    False
    """
    return bool(_holders)


@contextlib.contextmanager
def enabled(*, calibrate: bool = True) -> Iterator[None]:
    """enable() for a `with` block; for the whole process, not only this thread.

    >>> with anyflash.torch.enabled():
    ...     out = model(x)
    """
    holder = object()
    _hold(holder, calibrate)
    try:
        yield
    finally:
        _let_go(holder)


def counts() -> Tuple[int, int]:
    """(calls, passed_on): calls while enabled, and those of them that torch's kernel computed,
    without those of a calibration. explain() names the calls that are not counted.

    >>> anyflash.torch.counts()
    (12, 0)
    """
    calls, passed_on = ctypes.c_uint64(), ctypes.c_uint64()
    _lib.bindings.anyflash_torch_counts(ctypes.byref(calls), ctypes.byref(passed_on))
    return calls.value - _trials[0], passed_on.value - _trials[1]


def explain() -> str:
    """Which calls of F.scaled_dot_product_attention the engine computes, and the times by which
    that was decided.

    >>> print(anyflash.torch.explain())
    float32 prefill: anyflash 0.214 ms (torch 0.630 ms, anyflash up to AVX2 0.401 ms)
    ...

    Each line begins with who computes such calls. Each time is the least of six calls or more,
    and contains the whole call. The last line names the calls that torch never passes to
    anyflash, so that counts() does not count them.
    """
    with _lock:
        if not _holders:
            return "torch computes all calls: anyflash is not enabled"
        return f"{_choice.text}\n{_NEVER_ASKED}"


class _Active:
    """The handle that torch's registry keeps while "ANYFLASH" is active."""

    def __init__(self):
        _hold(self)

    def remove(self):
        _let_go(self)


def _register():
    """Registers the name with torch; enables nothing."""
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError:  # torch before 2.11
        return
    register_flash_attention_impl("ANYFLASH", register_fn=_Active)


_register()
