"""The command `anyflash`, also `python -m anyflash`.

Runs the commands that are written in Python, and the program that the package carries for all
others.
"""

import importlib
import importlib.util
import os
import pathlib
import platform
import sys

from . import _command

#: Commands written in Python: name and module, which has main(words).
_COMMANDS = {"providers": ".providers.table", "shim": ".shim"}


def _ours(words):
    """(module, its words) if the command, or the one to help with, is written in Python; module
    is None otherwise."""
    if len(words) == 2 and words[0] == "help" and words[1] in _COMMANDS:
        words = [words[1], "--help"]
    module = _COMMANDS.get(words[0]) if words else None
    return module and importlib.import_module(module, __package__), words[1:]


def main():
    words = sys.argv[1:]
    module, rest = _ours(words)
    if module is not None:
        sys.exit(_command.run(module.main, rest))
    program = pathlib.Path(__file__).parent / "bin" / "anyflash"
    if not program.exists():
        _command.fail(
            "this installation of anyflash has no program for this system "
            f"({platform.system()} {platform.machine()}): only `anyflash providers` and "
            "`anyflash shim` work",
            "the wheels for Linux on x86_64 and aarch64 contain it; there, `anyflash plan "
            "--machine FILE` reads the output of `python -m torch.utils.collect_env` from here",
        )
        sys.exit(3)
    # In an environment with torch the user means this environment; in one of a tool alone
    # (pipx, uv tool), another.
    if sys.prefix != sys.base_prefix and importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    try:
        os.execv(program, [str(program), *words])
    except OSError as error:  # for another processor, or not executable
        _command.fail(f"cannot run '{program}': {error.strerror}", "reinstall anyflash")
        sys.exit(3)


if __name__ == "__main__":
    main()
