"""A package `flash_attn` for programs that import that name: `anyflash shim install`.

    from anyflash import shim
    shim.install()            # into this environment, or python="path/of/another"
    shim.install(fa3=True)    # with flash_attn_interface, FlashAttention-3's module
    shim.remove()

Installs modules and metadata of flash-attn into a Python environment, from the files in tree/.
anyflash computes the attention, plain torch the rest. It never changes files of another
distribution: if a flash-attn is installed, install() refuses.
"""

import json
import pathlib
from typing import Any, Dict, Optional

from .. import _command
from .._version import __version__
from . import _files
from ._environment import Refused, describe, import_failure, interpreter

__all__ = ["install", "remove", "status", "Refused"]


def _check_installed(python, facts, site):
    """Refuses if there is a flash_attn that is not ours."""
    for found in facts["flash_attn"]:
        name = f"flash-attn {found['version']}"
        if found["ours"] and _files.has_package(site):
            raise Refused(
                f"{name} in '{found['folder']}' is anyflash's stand-in already, with anyflash "
                "inside",
                "nothing to do; `anyflash undo` or `anyflash shim remove` removes it",
            )
        if found["ours"]:
            continue
        cause = import_failure(python)
        if cause is None:
            raise Refused(
                f"{name} is installed in '{found['folder']}' and can be imported",
                "nothing to do: anyflash uses it for calls that it supports",
            )
        raise Refused(
            f"{name} in '{found['folder']}' is broken: {cause}",
            f"remove it with `uv pip uninstall --python {_command.quoted(python)} flash-attn`, "
            "then run this command again",
        )
    ours = str(site / "flash_attn")
    for folder in facts["modules"]:
        if folder != ours or not _files.is_ours(site):
            raise Refused(
                f"'{folder}' contains a module flash_attn that anyflash did not install",
                "remove it, or import anyflash in place of flash_attn",
            )


def _check_interface(facts, site):
    """Refuses if there is a flash_attn_interface that is not ours."""
    for place in facts["interface"]:
        if place != str(site / _files.INTERFACE) or not _files.has_interface(site):
            raise Refused(
                f"'{place}' is a flash_attn_interface that anyflash did not install",
                "nothing to do: programs import FlashAttention-3 from there; without --fa3 the "
                "other modules are installed",
            )


def _check_environment(facts):
    prefix = facts["prefix"]
    if facts["managed"]:
        raise Refused(
            f"the Python in '{prefix}' is managed by the system (EXTERNALLY-MANAGED)",
            "create a virtual environment: `uv venv` or `python3 -m venv .venv`",
        )
    if not facts["writable"]:
        raise Refused(f"'{facts['site']}' cannot be written to")
    for name in ("anyflash", "torch"):
        if not facts[name]:
            what = name if name == "torch" else "."
            where = "" if name == "torch" else " in the anyflash source folder"
            raise Refused(
                f"'{prefix}' has no {name}, which the modules need",
                f"run `uv pip install --python {_command.quoted(prefix)} {what}`{where} first",
            )


def install(python: Optional[str] = None, fa3: bool = False) -> Dict[str, Any]:
    """Installs the shim, replacing an existing one; returns status().

    >>> shim.install(".venv")["installed"]
    True

    `python`: an interpreter or an environment's folder. None: this Python if it has torch, else
    $VIRTUAL_ENV, else ./.venv. `fa3`: with flash_attn_interface, too. Programs that find that
    module often prefer it, and expect the results of one certain release of it. Raises Refused
    with the reason and what to do.
    """
    python = interpreter(python)
    facts = describe(python)
    site = pathlib.Path(facts["site"])
    _check_environment(facts)
    _check_installed(python, facts, site)
    if fa3:
        _check_interface(facts, site)
    _files.install(site, fa3)
    return _status(python, facts)


def remove(python: Optional[str] = None) -> Dict[str, Any]:
    """Removes the shim; returns status(). Raises Refused if there is none.

    >>> shim.remove(".venv")["installed"]
    False
    """
    python = interpreter(python)
    facts = describe(python)
    site = pathlib.Path(facts["site"])
    if not _files.is_ours(site) and not _is_recorded(facts, site):
        raise Refused(f"there is no shim in '{facts['site']}'")
    _files.remove(site)
    return _status(python, facts)


def _is_recorded(facts, site):
    return any(
        found["ours"] and found["folder"].rstrip("/") == str(site)
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
        "fa3": False,
        "made_by": None,
        "changed": [],
        "other": None,
    }
    info = _files.information(site)
    if (info / "RECORD").is_file() and _files.is_ours(site):
        answer["installed"] = True
        answer["version"] = info.name[len("flash_attn-") : -len(".dist-info")]
        answer["fa3"] = _files.has_interface(site)
        answer["made_by"] = _files.made_by(site)
        answer["changed"] = [str(path) for path in _files.changed(site)]
    elif _files.is_ours(site):
        answer["other"] = "an incomplete shim, of an installation that was interrupted"
    for found in facts["flash_attn"]:
        if not found["ours"]:
            answer["other"] = f"flash-attn {found['version']} in {found['folder']}"
    return answer


def status(python: Optional[str] = None) -> Dict[str, Any]:
    """The state of an environment: a dict with installed, version, made_by, changed, other.

    >>> shim.status(".venv")["version"]
    '2.8.3'
    """
    python = interpreter(python)
    return _status(python, describe(python))


#: transformers finds flash_attn_2 available only beside a GPU, and decides that from the
#: metadata, without importing flash_attn: no setting of the shim can reach it.
_TRANSFORMERS = (
    'transformers refuses attn_implementation="flash_attention_2" on a CPU until the program\n'
    "calls anyflash.transformers.enable_flash_attention_2()"
)


def _say(answer, action):
    if answer["installed"]:
        both = " and flash_attn_interface by anyflash are"
        are = both if answer["fa3"] else " by anyflash is"
        print(f"flash_attn {answer['version']}{are} in '{answer['site']}'")
    elif action == "remove":
        print(f"removed the shim from '{answer['site']}'")
    else:
        print(f"no shim in '{answer['site']}'")
    if answer["other"]:
        print(f"found {answer['other']}")
    if answer["installed"] and answer["made_by"] != __version__:
        print(f"it was installed by anyflash {answer['made_by']}; this is {__version__}")
    for path in answer["changed"]:
        print(f"changed since it was installed: {path}")
    if action == "install":
        print(_TRANSFORMERS)


USAGE = """\
usage: anyflash shim [OPTION...] ACTION

Installs a package flash_attn into a Python environment, with the modules and
metadata of flash-attn 2.8.3 that programs use. anyflash computes the attention,
plain torch the rest. ACTION is:

  install   install it; refused if a flash-attn is installed
  remove    remove it, but no files of other packages
  status    show what is installed

Exit code: 0 done (status: installed and unchanged), 1 refused (status: not
installed, or changed), 2 wrong usage, 3 a file could not be read or written.

Options:
  -p, --python PATH   the environment: an interpreter, an environment's folder,
                      or a version such as 3.12 (default: this one if it has
                      torch, else $VIRTUAL_ENV, else ./.venv)
      --fa3           install flash_attn_interface, FlashAttention-3's module,
                      too; refused if there is one
      --json          print JSON, schema anyflash-shim/1
  -h, --help          print this help
"""
_OPTIONS = {
    "--python": "PATH",
    "-p": "--python",
    "--fa3": None,
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
        given = f"unknown action {ascii(' '.join(rest))}" if rest else "missing action"
        raise _command.Usage(
            f"{given} of `anyflash shim`", "write install, remove or status, and --python ENV"
        )
    try:
        if "--fa3" in given and rest[0] != "install":
            raise _command.Usage("--fa3 belongs to `anyflash shim install`", "leave it out")
        options = {"fa3": True} if "--fa3" in given else {}
        answer = actions[rest[0]](given.get("--python"), **options)
    except Refused as refused:
        _command.fail(refused, refused.hint)
        return 1
    if "--json" in given:
        print(json.dumps(answer, indent=1))
    else:
        _say(answer, rest[0])
    is_good = answer["installed"] and not answer["changed"]
    return 0 if is_good or rest[0] == "remove" else 1
