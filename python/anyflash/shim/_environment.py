"""Facts of a Python environment, from its own interpreter, without importing its packages.

    describe(interpreter(".venv"))["site"]      # its site-packages
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

#: Time limits of the interpreter, to describe itself and to import flash_attn.
DESCRIBE_SECONDS, IMPORT_SECONDS = 60, 180

_QUESTIONS = """
import importlib.metadata, importlib.util, json, os, re, sys, sysconfig

def where(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return list(spec.submodule_search_locations or [spec.origin])

def describe(found):
    wheel = found.read_text("WHEEL") or ""
    return {
        "version": found.version,
        "ours": bool(re.search("^Generator: anyflash [0-9]", wheel, re.M)),
        "folder": str(found.locate_file("")),
    }

def named(wanted):
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"] or ""
        if re.sub("[-_.]+", "-", name).lower() == wanted:
            yield describe(found)

managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
site = sysconfig.get_path("purelib")
print(json.dumps({
    "version": ".".join(map(str, sys.version_info[:3])),
    "prefix": sys.prefix,
    "site": site,
    "managed": sys.prefix == sys.base_prefix and os.path.exists(managed),
    "writable": os.access(site, os.W_OK | os.X_OK),
    "torch": bool(where("torch")),
    "anyflash": bool(where("anyflash")),
    "flash_attn": list(named("flash-attn")),
    "modules": where("flash_attn"),
    "interface": where("flash_attn_interface"),
}))
"""


class Refused(Exception):
    """The request was refused; `hint`: what to do about it, or ""."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


def _python_in(folder):
    """The path of the interpreter of an environment, which need not exist."""
    if os.name == "nt":
        return pathlib.Path(folder, "Scripts", "python.exe")
    return pathlib.Path(folder, "bin", "python")


def _default():
    """This Python if it has torch; else the active environment; else ./.venv; else this one."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        for folder in (os.environ.get("VIRTUAL_ENV"), ".venv"):
            if folder and _python_in(folder).exists():
                return str(_python_in(folder))
    return sys.executable


def interpreter(named=None):
    """The interpreter for a path, an environment's folder, a name or a version; or for None."""
    if named is None:
        return _default()
    path = pathlib.Path(named)
    if path.is_dir():
        path = _python_in(path)
    if path.is_file():
        return str(path)
    found = shutil.which(named) or shutil.which(f"python{named}")
    if found is None:
        raise Refused(
            f"'{named}' is neither an interpreter nor an environment",
            "give the folder of a virtual environment, or its bin/python",
        )
    return found


def _run(python, code, seconds):
    """Runs code in isolated mode: without PYTHON* variables and the working directory."""
    try:
        return subprocess.run(
            [python, "-I", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"'{python}' did not answer within {seconds} s") from None
    except OSError as error:
        raise Refused(f"cannot start '{python}': {error.strerror}") from None


def describe(python):
    """The facts that _QUESTIONS prints, as a dict; raises Refused if it fails."""
    done = _run(python, _QUESTIONS, DESCRIBE_SECONDS)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Refused(f"'{python}' is not a working Python: {lines[-1][:200]}") from None


def import_failure(python):
    """Why `import flash_attn` fails there, in one line; None if it works."""
    done = _run(python, "import flash_attn", IMPORT_SECONDS)
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
