"""Wheels on PyPI, downloaded with pip; only some members are kept.

What was fetched once stays in the cache folder ($ANYFLASH_REAL_CACHE, default
~/.cache/anyflash-real); wheels themselves are removed again.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

CACHE = pathlib.Path(os.environ.get("ANYFLASH_REAL_CACHE",
                                    pathlib.Path.home() / ".cache" / "anyflash-real"))
PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_17",
             "manylinux_2_24", "manylinux_2_27", "manylinux_2_28", "manylinux_2_31",
             "manylinux_2_34", "manylinux_2_35")


def download(requirement, folder, python="3.11"):
    """The one wheel of the requirement, for this processor, without what it depends on."""
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-cache-dir",
                    "--no-deps", "--only-binary=:all:", "--python-version", python, *platforms,
                    "-d", str(folder), requirement], check=True)
    wheel, = folder.glob("*.whl")
    return wheel


def extract(wheel, folder, wanted):
    """Writes the members for whose name wanted(name) is true below the folder."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = pathlib.PurePosixPath(member.filename)
            if member.is_dir() or path.is_absolute() or ".." in path.parts or \
                    not wanted(member.filename):
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as to:
                shutil.copyfileobj(source, to)


def keep(requirement, folder, wanted):
    """The folder with the wanted members of the requirement's wheel; fetched when not there."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            wheel = download(requirement, pathlib.Path(scratch))
            print(f"  fetched {wheel.name}", flush=True)
            part = pathlib.Path(scratch) / "members"
            part.mkdir()
            extract(wheel, part, wanted)
            part.rename(folder)
    return folder


def extensions(wheel_name, files):
    """Of the wheel that is called `wheel_name` without '.whl' the shared libraries called
    `files`, and the libraries of others that it brings in its folder NAME.libs."""
    name, version = wheel_name.split("-")[:2]
    return keep(f"{name}=={version}", CACHE / "extensions" / wheel_name,
                lambda member: member.rpartition("/")[2] in files or ".libs/" in member)
