"""FlashAttention on any machine.

    import anyflash
    out = anyflash.attend(q, k, v, causal=True)             # NumPy, torch on CPU, DLPack
    out = anyflash.flash_attn_func(q, k, v, causal=True)    # torch, any device

Importing this package imports neither torch nor NumPy and changes nothing. Every function
that changes another library has one that undoes it.
"""

import importlib

from ._attend import attend, attend_backward
from ._lib import explain_kernel, set_threads, threads
from ._version import __version__

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from .explain import explain as explain
    from .flash_attn import flash_attn_func as flash_attn_func
    from .flash_attn import flash_attn_kvpacked_func as flash_attn_kvpacked_func
    from .flash_attn import flash_attn_qkvpacked_func as flash_attn_qkvpacked_func
    from .flash_attn import flash_attn_varlen_func as flash_attn_varlen_func
    from .flash_attn import flash_attn_varlen_kvpacked_func as flash_attn_varlen_kvpacked_func
    from .flash_attn import flash_attn_varlen_qkvpacked_func as flash_attn_varlen_qkvpacked_func
    from .flash_attn import flash_attn_with_kvcache as flash_attn_with_kvcache

#: Functions that need torch, with their modules, which are imported at first use.
_LAZY = {
    "explain": ".explain",
    "flash_attn_func": ".flash_attn",
    "flash_attn_kvpacked_func": ".flash_attn",
    "flash_attn_qkvpacked_func": ".flash_attn",
    "flash_attn_varlen_func": ".flash_attn",
    "flash_attn_varlen_kvpacked_func": ".flash_attn",
    "flash_attn_varlen_qkvpacked_func": ".flash_attn",
    "flash_attn_with_kvcache": ".flash_attn",
}

__all__ = [
    "attend",
    "attend_backward",
    "explain_kernel",
    "set_threads",
    "threads",
    "__version__",
    *_LAZY,
]


if not TYPE_CHECKING:  # else every name would be known

    def __getattr__(name):
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module 'anyflash' has no attribute '{name}'")
        found = getattr(importlib.import_module(module, __name__), name)
        globals()[name] = found
        return found


def __dir__():
    return sorted({*globals(), *_LAZY})
