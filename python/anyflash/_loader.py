"""Finds the engine's library, and that of its bindings for NumPy and torch, and opens both.

    library, bindings, missing = load()

An installation without any library is usable, except for what the engine computes: the first
call that needs the engine raises ImportError. A library that is there but cannot be used raises
ImportError at once.
"""

import ctypes
import os
import re
import sys

from ._version import __version__

#: All functions that the package calls: a library without one of them is an older build.
ENGINE = (
    "anyflash_attend",
    "anyflash_attend_backward",
    "anyflash_context_free",
    "anyflash_context_new",
    "anyflash_explain",
    "anyflash_merge",
    "anyflash_version_text",
)
BINDINGS = (
    "anyflash_python_attend",
    "anyflash_torch_caller",
    "anyflash_torch_choose",
    "anyflash_torch_context",
    "anyflash_torch_counts",
    "anyflash_torch_disable",
    "anyflash_torch_enable",
    "anyflash_torch_operators",
    "anyflash_torch_withdraw",
)


def file_name(library):
    """The name of a library's file on this system: "libanyflash.so" for "anyflash"."""
    if sys.platform == "win32":
        return f"{library}.dll"
    return f"lib{library}.dylib" if sys.platform == "darwin" else f"lib{library}.so"


_NAME = file_name("anyflash")
_REMEDY = (
    "build it again (make install, or pip install . in anyflash's sources), or set "
    f"ANYFLASH_LIBRARY to the {_NAME} of {__version__}"
)
#: The end of a sentence about the engine.
_MISSING = (
    f"needs the library {_NAME}, which this installation of anyflash lacks: install the wheel "
    "for this system, or build the library from source and set ANYFLASH_LIBRARY to its path"
)


class _Absent:
    """Stands for a library that is not there; any of its functions raises ImportError."""

    def __getattr__(self, name):
        def function(*arguments):
            raise ImportError(f"anyflash's engine {_MISSING}")

        return function


def _numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def _open(path, functions):
    """The library, with all of `functions`; without one a call would fail much later."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        reason = str(error).replace(f"{path}: ", "")
        raise ImportError(
            f"anyflash cannot load its library '{path}' ({reason}): install anyflash again, "
            "as a wheel for this system"
        ) from None
    if hasattr(library, "anyflash_version_text"):
        library.anyflash_version_text.restype = ctypes.c_char_p
        version = library.anyflash_version_text().decode("utf-8", "replace")
        if version != __version__:
            age = "newer" if _numbers(version) > _numbers(__version__) else "older"
            raise ImportError(
                f"anyflash {__version__} cannot use its library '{path}', which is the {age} "
                f"version {version}: {_REMEDY}"
            )
    missing = [name for name in functions if not hasattr(library, name)]
    if missing:
        raise ImportError(
            f"anyflash {__version__} cannot use its library '{path}', an older build without "
            f"{', '.join(missing)}: {_REMEDY}"
        )
    return library


def load():
    """(the engine, the bindings, None), or two stand-ins and why the engine cannot be used.

    The engine is $ANYFLASH_LIBRARY or the library in this package's folder; the bindings, which
    link to it, are beside it.
    """
    path = os.environ.get("ANYFLASH_LIBRARY")
    if not path:
        path = os.path.join(os.path.dirname(__file__), _NAME)
        if not os.path.exists(path):
            return _Absent(), _Absent(), _MISSING
    library = _open(path, ENGINE)
    library.anyflash_context_free.restype = None
    bindings = os.path.join(os.path.dirname(path), file_name("anyflash_python"))
    return library, _open(bindings, BINDINGS), None
