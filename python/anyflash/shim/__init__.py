"""A module `flash_attn` for those who ask for it by name: `anyflash shim install`.

    from anyflash import shim
    shim.install()            # into this environment, or python="path/of/another"
    shim.remove()

Puts flash-attn's module tree and metadata into a Python environment, generated from the
files in tree/. Attention in it is anyflash's; the rest is plain torch. Never touches the
files of another distribution: where a flash-attn is installed, install() refuses.
"""

import json
import pathlib

from .. import _command
from .._version import __version__
from . import _files
from ._environment import Refused, describe, import_failure, interpreter

__all__ = ["install", "remove", "status", "Refused"]


def _check_installed(python, facts, site):
    """Refuses where flash_attn is there and not ours."""
    for found in facts["flash_attn"]:
        if found["installer"] == _files.INSTALLER:
            continue
        name = f"flash-attn {found['version']}"
        cause = import_failure(python)
        if cause is None:
            raise Refused(
                f"{name} is installed in '{found['folder']}' and can be imported",
                "nothing is needed: anyflash uses it where it works",
            )
        raise Refused(
            f"{name} in '{found['folder']}' is broken: {cause}",
            f"take it away with `uv pip uninstall --python {python} flash-attn`, "
            "then say this again",
        )
    ours = str(site / "flash_attn")
    for folder in facts["modules"]:
        if folder != ours or not _files.is_ours(site):
            raise Refused(
                f"a module flash_attn that is not ours is in '{folder}'",
                "take it away, or use anyflash by its own name",
            )


def _check_environment(facts):
    prefix = facts["prefix"]
    if facts["managed"]:
        raise Refused(
            f"the Python in '{prefix}' is managed by the system (EXTERNALLY-MANAGED)",
            "make a virtual environment: `uv venv` or `python3 -m venv .venv`",
        )
    if not facts["writable"]:
        raise Refused(f"'{facts['site']}' cannot be written to")
    for name in ("anyflash", "torch"):
        if not facts[name]:
            raise Refused(
                f"'{prefix}' has no {name}, which the modules need",
                f"`uv pip install --python {prefix} {name}` first",
            )


def install(python=None):
    """Installs the shim; returns status(). A shim that is there is made anew.

    `python`: an interpreter or an environment's folder. None: this Python where torch is,
    else $VIRTUAL_ENV, else ./.venv. Raises Refused with the reason and what to do.
    """
    python = interpreter(python)
    facts = describe(python)
    site = pathlib.Path(facts["site"])
    _check_environment(facts)
    _check_installed(python, facts, site)
    _files.install(site)
    return _status(python, facts)


def remove(python=None):
    """Takes the shim away; returns status(). Refused where there is none."""
    python = interpreter(python)
    facts = describe(python)
    site = pathlib.Path(facts["site"])
    if not _files.is_ours(site) and not _is_recorded(facts, site):
        raise Refused(f"there is no shim in '{facts['site']}'")
    _files.remove(site)
    return _status(python, facts)


def _is_recorded(facts, site):
    return any(
        found["installer"] == _files.INSTALLER and found["folder"].rstrip("/") == str(site)
        for found in facts["flash_attn"]
    )


def _status(python, facts):
    site = pathlib.Path(facts["site"])
    answer = {
        "schema": "anyflash-shim/1",
        "python": python,
        "site": str(site),
        "installed": False,
        "version": None,
        "made_by": None,
        "changed": [],
        "other": None,
    }
    if (site / _files.INFO / "RECORD").is_file() and _files.is_ours(site):
        answer["installed"] = True
        answer["version"] = _files.VERSION
        answer["made_by"] = _files.made_by(site)
        answer["changed"] = [str(path) for path in _files.changed(site)]
    elif _files.is_ours(site):
        answer["other"] = "the remains of an install that was cut short"
    for found in facts["flash_attn"]:
        if found["installer"] != _files.INSTALLER:
            answer["other"] = f"flash-attn {found['version']} in {found['folder']}"
    return answer


def status(python=None):
    """What is there: a dict with installed, version, made_by, changed files, other."""
    python = interpreter(python)
    return _status(python, describe(python))


def _say(answer):
    if answer["installed"]:
        print(f"flash_attn {answer['version']} by anyflash is in '{answer['site']}'")
    else:
        print(f"no shim in '{answer['site']}'")
    if answer["other"]:
        print(f"there is {answer['other']}")
    if answer["installed"] and answer["made_by"] != __version__:
        print(f"it was made by anyflash {answer['made_by']}; this is {__version__}")
    for path in answer["changed"]:
        print(f"changed since: {path}")


USAGE = """\
usage: anyflash shim [OPTION...] ACTION

Puts the modules and the metadata of flash-attn 2.8.3 into a Python environment,
so that `import flash_attn` and those who ask for the package find it; attention
is then computed by anyflash, the rest by plain torch. ACTION is:

  install   put them there; refused where a flash-attn is installed
  remove    take them away; the files of others stay
  status    say what is there

Exit code: 0 when done (status: installed and unchanged), 1 when refused
(status: not so), 2 usage, 3 a file or the system failed.

Options:
  -p, --python PATH   the environment: an interpreter, an environment's folder,
                      or a version as 3.12 (default: this one where torch is,
                      else $VIRTUAL_ENV, else ./.venv)
      --json          print JSON, schema anyflash-shim/1
  -h, --help          print this help
"""
_OPTIONS = {
    "--python": "PATH",
    "-p": "--python",
    "--json": None,
    "--help": None,
    "-h": "--help",
}


def main(words):
    """`anyflash shim WORDS`; returns the exit code."""
    actions = {"install": install, "remove": remove, "status": status}
    given, rest = _command.parse(words, _OPTIONS)
    if "--help" in given:
        print(USAGE, end="")
        return 0
    if len(rest) != 1 or rest[0] not in actions:
        said = ascii(" ".join(rest)) if rest else "nothing"
        raise _command.Usage(
            f"{said} is no action of `anyflash shim`",
            "install, remove or status, with --python ENV",
        )
    try:
        answer = actions[rest[0]](given.get("--python"))
    except Refused as refused:
        _command.fail(refused, refused.hint)
        return 1
    if "--json" in given:
        print(json.dumps(answer, indent=1))
    else:
        _say(answer)
    is_good = answer["installed"] and not answer["changed"]
    return 0 if is_good or rest[0] == "remove" else 1
