#!/usr/bin/env python3
"""Tests a wheel in fresh environments of every Python that uv has or can download.

    try_wheel.py WHEEL FOLDER [--torch 3.12=2.15.0]...

uv creates each environment in FOLDER: empty, with NumPy, and, for the Pythons named by
--torch, with that torch. inside.py runs there. A Python that cannot be downloaded is reported
and skipped; fewer than PYTHONS_AT_LEAST is a failure. Called by `tests/run wheel`.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PYTHONS_AT_LEAST = 4
INSIDE = pathlib.Path(__file__).with_name("inside.py")


def run(command, **options):
    return subprocess.run(command, text=True, capture_output=True, timeout=900, **options)


def runs(python):
    try:
        return run([str(python), "-c", "import venv, ctypes"]).returncode == 0
    except OSError:
        return False


def find_python(version):
    """An interpreter of uv, on PATH or of pyenv, else one that uv downloads, or None."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = run(["uv", "python", "find", "--no-project", version]).stdout.strip()
    others = [shutil.which(f"python{version}")]
    others += sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for python in [found, *others]:
        if python and runs(python):
            return str(python)
    if run(["uv", "python", "install", version]).returncode == 0:
        return version
    return None


def try_in(folder, version, base, wheel, others):
    """Tests the wheel in a new environment of `base` with `others`; whether it works."""
    environment = folder / f"py{version}"
    shutil.rmtree(environment, ignore_errors=True)
    made = run(["uv", "venv", "-q", "--no-project", "--python", base, str(environment)])
    python = environment / "bin" / "python"
    wanted = [str(wheel), *others]
    if made.returncode == 0:
        made = run(["uv", "pip", "install", "-q", "--python", str(python), *wanted])
    if made.returncode != 0:
        print(f"python {version}: cannot install {' '.join(others)}: {made.stderr.strip()}")
        return False
    names = [other.partition("=")[0] for other in others]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ANYFLASH"))}
    done = run([str(python), str(INSIDE), *names], cwd=folder, env=clean)
    print((done.stdout if done.returncode == 0 else f"{version}: {done.stderr}").strip())
    shutil.rmtree(environment, ignore_errors=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--torch", action="append", default=[], metavar="PYTHON=TORCH")
    options = parser.parse_args()
    folder, wheel = options.folder.resolve(), options.wheel.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tried, bad = 0, 0
    for version in PYTHONS:
        base = find_python(version)
        if base is None:
            print(f"python {version}: not to be had here")
            continue
        tried += 1
        torches = [t.partition("=")[2] for t in options.torch if t.startswith(version + "=")]
        trials = [[], ["numpy"], *([f"torch=={t}", "numpy"] for t in torches)]
        bad += sum(not try_in(folder, version, base, wheel, others) for others in trials)
    if tried < PYTHONS_AT_LEAST:
        print(f"only {tried} Pythons, at least {PYTHONS_AT_LEAST} are needed")
    sys.exit(bad > 0 or tried < PYTHONS_AT_LEAST)


if __name__ == "__main__":
    main()
