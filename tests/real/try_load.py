"""Run by the interpreter under test: imports torch once, then tries each library in a child.

Arguments: shared libraries. Prints one JSON object a line: path, loads, error. A file that
holds a Python module of its own name is imported as Python's own finder does; any other is
loaded by dlopen(). A crash of the child counts as "does not load".
"""
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import sys

try:
    import torch  # noqa: F401
except ImportError:
    torch = None


def load(path):
    """Loads the file the way its user would; raises where that fails."""
    folder, name = os.path.split(path)
    stem = name.split(".")[0]
    with open(path, "rb") as file:
        is_module = b"\0PyInit_" + stem.encode() + b"\0" in file.read()
    if not is_module:
        ctypes.CDLL(path)
        return
    machinery = importlib.machinery
    finder = machinery.FileFinder(
        folder, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES))
    spec = finder.find_spec(stem)
    if spec is None or spec.origin != path:
        raise ImportError(f"this Python does not take {name} for module {stem}")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def attempt(path):
    """What happened, from a child so that a crash ends nothing else."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            load(path)
            os.write(writer, b"\n")
        except BaseException as error:  # pylint: disable=broad-exception-caught
            os.write(writer, f"{type(error).__name__}: {error}"[:2000].encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if not said:
        said = f"crash: status {status}"
    return {"path": path, "loads": said == "\n", "error": None if said == "\n" else said}


for argument in sys.argv[1:]:
    print(json.dumps(attempt(os.path.abspath(argument))), flush=True)
