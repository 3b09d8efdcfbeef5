"""FlashAttention on any machine.

    import anyflash
    out = anyflash.attend(q, k, v, causal=True)      # NumPy, torch on CPU, DLPack

Importing this package imports neither torch nor NumPy and changes nothing.
Every switch is a function with an undo.
"""

from ._attend import attend, attend_backward
from ._lib import explain_kernel, set_threads, threads
from ._version import __version__

__all__ = [
    "attend",
    "attend_backward",
    "explain_kernel",
    "set_threads",
    "threads",
    "__version__",
]
