#!/usr/bin/env python3
"""Builds the wheels that contain no program.

    python_wheel.py FOLDER                  # anyflash-VERSION-py3-none-any.whl
    python_wheel.py FOLDER win_amd64 FILE...

The first is for systems that have no other wheel: it has no library either, and flash_attn's
functions compute by torch. The second is for a platform where the engine runs, and the files
are its libraries. pyproject.toml describes the wheels, as it does those that scikit-build-core
makes. Needs nothing but Python 3.11.
"""

import pathlib
import sys
import tomllib

import wheel_file
from version import version

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "anyflash"
#: flash-attention.txt: the package follows its names and signatures. The others are of C
#: libraries.
LICENSES = ("LICENSE", "licenses/flash-attention.txt")
SYSTEM = "Operating System :: "
#: By the first word of the platform: the classifier, and the licence of what zig links.
PLATFORMS = {
    "any": ("OS Independent", ()),
    "win": ("Microsoft :: Windows", ("licenses/mingw-w64.txt", "licenses/zstd.txt")),
    "macosx": ("MacOS", ()),
}


def metadata(project, system):
    """METADATA of pyproject.toml's [project]."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version()}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {c}" for c in project["classifiers"] if not c.startswith(SYSTEM)),
        f"Classifier: {SYSTEM}{system}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (ROOT / project["readme"]).read_text("utf-8")


def entry_points(project):
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in sorted(points.items()))
        for group, points in sorted(groups.items())
    )


def contents(platform, libraries):
    """The files of the wheel without RECORD, as wheel_file.write() takes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    system, licenses = PLATFORMS[platform.partition("_")[0]]
    info = f"anyflash-{version()}.dist-info"
    files = {
        f"anyflash/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes()
        for path in PACKAGE.rglob("*")
        if path.name == "py.typed" or path.suffix == ".py"
    }
    files |= {f"anyflash/{path.name}": path.read_bytes() for path in libraries}
    files |= {f"{info}/licenses/{n}": (ROOT / n).read_bytes() for n in (*LICENSES, *licenses)}
    texts = {
        "METADATA": metadata(project, system),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: anyflash\n"
        f"Root-Is-Purelib: {'false' if libraries else 'true'}\nTag: py3-none-{platform}\n",
        "entry_points.txt": entry_points(project),
    }
    files |= {f"{info}/{name}": text.encode() for name, text in texts.items()}
    return {name: (content, False) for name, content in files.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    platform, *libraries = sys.argv[2:] or ["any"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"anyflash-{version()}-py3-none-{platform}.whl"
    wheel_file.write(path, contents(platform, [pathlib.Path(name) for name in libraries]))
    print(path)


if __name__ == "__main__":
    main()
