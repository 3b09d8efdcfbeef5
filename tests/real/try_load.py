"""Run by the interpreter under test: imports torch once, then tries each library in a child.

Arguments: shared libraries. Prints one JSON object per line: path, loads, error. A file that
contains a Python module of its own name is imported by Python's finder. A file called lib...
that contains a module is imported by its path, as its package would do. All others are loaded
by dlopen(). A crash of the child counts as "does not load". A module that was loaded, but whose
code then failed to import another Python module, counts as loaded; error says so.
"""
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import re
import sys

try:
    import torch  # noqa: F401
except ImportError:
    torch = None

LOADED = "\n"


def load(path):
    """Loads the file as its package would; raises if that fails."""
    folder, name = os.path.split(path)
    stem = name.split(".")[0]
    with open(path, "rb") as file:
        modules = re.findall(rb"\0PyInit_(\w+)(?=\0)", file.read())
    machinery = importlib.machinery
    if stem.encode() in modules:
        finder = machinery.FileFinder(
            folder, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES))
        spec = finder.find_spec(stem)
        if spec is None or spec.origin != path:
            raise ImportError(f"this Python does not take {name} for module {stem}")
    elif modules and stem.startswith("lib"):
        spec = importlib.util.spec_from_file_location(modules[0].decode(), path)
    else:
        ctypes.CDLL(path)
        return
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def said_of(error):
    """The error for the parent; for a module that only lacks other modules, their names."""
    text = f"{type(error).__name__}: {error}"[:2000]
    missing = isinstance(error, ImportError) and error.__cause__
    if isinstance(missing, ModuleNotFoundError):
        return f"{LOADED}then {type(missing).__name__}: {missing}"
    return f"{text}; {missing!r}" if missing else text


def attempt(path):
    """The result of a child process, so that a crash ends nothing else."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            load(path)
            os.write(writer, LOADED.encode())
        except BaseException as error:  # pylint: disable=broad-exception-caught
            os.write(writer, said_of(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if not said:
        said = f"crash: status {status}"
    loads = said.startswith(LOADED)
    return {"path": path, "loads": loads, "error": said[len(LOADED) * loads:] or None}


for argument in sys.argv[1:]:
    print(json.dumps(attempt(os.path.abspath(argument))), flush=True)
