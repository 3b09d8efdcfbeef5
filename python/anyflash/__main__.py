"""The program `anyflash`, which the package carries: `anyflash` and `python -m anyflash`.

What needs Python is answered here; every other command is the C program's.
"""

import importlib
import importlib.util
import os
import pathlib
import sys

from . import _command

#: Commands that this package does itself: name and module, with main(words).
_COMMANDS = {"providers": ".providers.table", "shim": ".shim"}


def _ours(words):
    """(module, words for it) where the command is done here: also its `help`."""
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
            "error: this build of the package has the engine only, not the program\n"
            "hint: `make install` in the sources builds both"
        )
    # Installed beside torch, this environment is the one meant; in a tool's own, it is not.
    if sys.prefix != sys.base_prefix and importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    os.execv(program, [str(program), *words])


if __name__ == "__main__":
    main()
