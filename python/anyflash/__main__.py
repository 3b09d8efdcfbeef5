"""The program `anyflash`, which the package carries: `anyflash` and `python -m anyflash`.

What needs Python is answered here; every other command is the C program's.
"""

import importlib
import importlib.util
import os
import pathlib
import sys

#: Commands that this package does itself: name and module, with main(words).
_COMMANDS = {"providers": ".providers.table", "shim": ".shim"}


def main():
    words = sys.argv[1:]
    if words and words[0] in _COMMANDS and not {"-h", "--help"} & set(words):
        sys.exit(importlib.import_module(_COMMANDS[words[0]], __package__).main(words[1:]))
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
