#!/usr/bin/env python3
"""Builds the wheel for systems that have no other: Python files alone, no library, no program.

    any_wheel.py FOLDER         # writes FOLDER/anyflash-VERSION-py3-none-any.whl

flash_attn's functions then compute by torch. pyproject.toml describes the wheel, as it does
those that scikit-build-core makes. Needs nothing but Python 3.11.
"""

import pathlib
import sys
import tomllib

import wheel_file
from version import version

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "anyflash"
#: Of code whose names and signatures the package follows; the others are of C libraries.
LICENSES = ("LICENSE", "licenses/flash-attention.txt")
SYSTEM = "Operating System :: "


def metadata(project):
    """METADATA of pyproject.toml's [project]."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version()}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {c}" for c in project["classifiers"] if not c.startswith(SYSTEM)),
        f"Classifier: {SYSTEM}OS Independent",
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


def contents():
    """The files of the wheel without RECORD, as wheel_file.write() takes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    info = f"anyflash-{version()}.dist-info"
    files = {
        f"anyflash/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes()
        for path in PACKAGE.rglob("*")
        if path.name == "py.typed" or path.suffix == ".py"
    }
    files |= {f"{info}/licenses/{name}": (ROOT / name).read_bytes() for name in LICENSES}
    texts = {
        "METADATA": metadata(project),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: anyflash\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        "entry_points.txt": entry_points(project),
    }
    files |= {f"{info}/{name}": text.encode() for name, text in texts.items()}
    return {name: (content, False) for name, content in files.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"anyflash-{version()}-py3-none-any.whl"
    wheel_file.write(path, contents())
    print(path)


if __name__ == "__main__":
    main()
