#!/usr/bin/env python3
"""Fetches what tests/config needs into a folder and writes the script that runs them.

    prepare.py FOLDER [UV_VERSION]

It makes a virtual environment with uv, pip and pytest. Existing files are kept.
"""
import pathlib
import subprocess
import sys
import venv

UV = "0.13.8"
RUN = """\
#!/bin/sh
UV='{folder}/bin/uv' PIP_PYTHON='{folder}/bin/python' CONFIG_PYTHON='{folder}/bin/python' \\
    exec '{folder}/bin/python' -m pytest -q -p no:cacheprovider '{tests}' "$@"
"""


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    version = sys.argv[2] if len(sys.argv) > 2 else UV
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if not (folder / f"uv-{version}").exists():
        subprocess.run([python, "-m", "pip", "install", "-q", "-U", "pip", "pytest",
                        f"uv=={version}"], check=True)
        (folder / f"uv-{version}").touch()
    run = folder / "run"
    run.write_text(RUN.format(folder=folder, tests=pathlib.Path(__file__).resolve().parent))
    run.chmod(0o755)


if __name__ == "__main__":
    main()
