"""The command `anyflash`, also `python -m anyflash`.

Runs the commands that are written in Python, and the program that the package carries for all
others.
"""

import importlib
import importlib.util
import os
import pathlib
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
        sys.exit(
            "error: this build of the package contains the engine only, not the program\n"
            "hint: `make install` in the sources builds both"
        )
    # In an environment with torch the user means this environment; in one of a tool alone
    # (pipx, uv tool), another.
    if sys.prefix != sys.base_prefix and importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    os.execv(program, [str(program), *words])


if __name__ == "__main__":
    main()
