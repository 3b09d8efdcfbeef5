"""Finds the engine's library, and that of its bindings for NumPy and torch, and opens both.

    library, bindings, missing = load()

An installation without any library is usable, except for what the engine computes: the first
call that needs the engine raises ImportError. A library that is there but cannot be used raises
ImportError at once.
"""

import ctypes
import os
import struct
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
    "anyflash_python_interface",
    "anyflash_torch_appends",
    "anyflash_torch_caller",
    "anyflash_torch_choose",
    "anyflash_torch_context",
    "anyflash_torch_counts",
    "anyflash_torch_disable",
    "anyflash_torch_enable",
    "anyflash_torch_operators",
    "anyflash_torch_write",
)
#: ANYFLASH_PYTHON_INTERFACE of the bindings that this package calls.
INTERFACE = 6


def file_name(library):
    """The name of a library's file on this system: "libanyflash.so" for "anyflash"."""
    if sys.platform == "win32":
        return f"{library}.dll"
    return f"lib{library}.dylib" if sys.platform == "darwin" else f"lib{library}.so"


_NAME = file_name("anyflash")
#: The end of a sentence about the engine.
_MISSING = (
    f"needs the library {_NAME}, which this installation of anyflash lacks: the wheels for "
    "Linux (x86_64 and aarch64, glibc 2.28 or newer), Windows (x86_64) and macOS (arm64) have "
    "it; on other systems, build it from source and set ANYFLASH_LIBRARY to its path"
)
#: Processors by their number in the header of an ELF file.
_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}


class _Absent:
    """Stands for a library that is not there; any of its functions raises ImportError."""

    def __getattr__(self, name):
        def function(*arguments):
            raise ImportError(f"anyflash's engine {_MISSING}")

        return function


def _numbers(version):
    return [int(n) for n in "".join(c if c.isdigit() else " " for c in version).split()]


def _remedy():
    if os.environ.get("ANYFLASH_LIBRARY"):
        return (
            f"set ANYFLASH_LIBRARY to the {_NAME} of anyflash {__version__}, with "
            f"{file_name('anyflash_python')} next to it, or unset it"
        )
    return "reinstall anyflash"


def _elf(path):
    """Returns (processor, whether it is truncated) of a 64-bit ELF file; else (None, False)."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
                return None, False
            (machine,) = struct.unpack_from("<H", header, 18)
            table, entry_bytes, count = struct.unpack_from("<Q14xHH", header, 32)
            file.seek(table)
            segments = file.read(56 * count)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None, False  # the dynamic linker says why
    if entry_bytes != 56:
        return None, False
    places = struct.iter_unpack("<8xQ16xQ16x", segments[: len(segments) // 56 * 56])
    end = max([table + 56 * count, *(offset + in_file for offset, in_file in places)])
    return _ELF_MACHINES.get(machine), end > size


def _load(path):
    """Loads the library; raises ImportError with the reason if that fails."""
    processor, is_truncated = _elf(path) if sys.platform == "linux" else (None, False)
    try:
        if not is_truncated:
            return ctypes.CDLL(path)
        reason = "the file is truncated"  # the dynamic linker would die of SIGBUS
    except OSError as error:
        reason = str(error).replace(f"{path}: ", "")
        if processor not in (None, os.uname().machine):  # the linker says: no such file
            reason = f"built for {processor}, but this machine is {os.uname().machine}"
    raise ImportError(f"anyflash cannot load its library '{path}' ({reason}): {_remedy()}")


def _open(path, functions):
    """Loads the library, which must have all of `functions`, so that no later call fails."""
    library = _load(path)
    unusable = f"anyflash {__version__} cannot use its library '{path}', which"
    if hasattr(library, "anyflash_version_text"):
        library.anyflash_version_text.restype = ctypes.c_char_p
        version = library.anyflash_version_text().decode("utf-8", "replace")
        if version != __version__:
            age = "newer" if _numbers(version) > _numbers(__version__) else "older"
            raise ImportError(f"{unusable} is the {age} version {version}: {_remedy()}")
    missing = [name for name in functions if not hasattr(library, name)]
    if len(missing) == len(functions):
        raise ImportError(f"{unusable} has none of its functions: {_remedy()}")
    if missing:
        names = ", ".join(missing)
        raise ImportError(f"{unusable} is an older build without {names}: {_remedy()}")
    return library


def _open_bindings(path):
    """Loads the bindings, whose functions must have the arguments that this package passes."""
    bindings = _open(path, BINDINGS)
    found = bindings.anyflash_python_interface()
    if found != INTERFACE:
        raise ImportError(
            f"anyflash {__version__} cannot use its library '{path}', which is from another "
            f"build (interface {found}; the package in '{os.path.dirname(__file__)}' needs "
            f"{INTERFACE}): {_remedy()}"
        )
    return bindings


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
    return library, _open_bindings(bindings), None
