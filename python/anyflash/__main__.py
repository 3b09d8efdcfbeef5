"""The program `anyflash`, which the package carries: `anyflash` and `python -m anyflash`."""

import importlib.util
import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "anyflash"
    if not program.exists():
        sys.exit(
            "error: this build of the package has the engine only, not the program\n"
            "hint: `make install` in the sources builds both"
        )
    # Installed beside torch, this environment is the one meant; in a tool's own, it is not.
    if sys.prefix != sys.base_prefix and importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
