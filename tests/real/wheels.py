"""Wheels on PyPI, downloaded with pip; only some members are kept.

The unpacked members stay in the cache folder ($ANYFLASH_REAL_CACHE, default
~/.cache/anyflash-real); the wheels are removed.
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
LIBRARY = re.compile(r"\.so(\.\d+)*$")
PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_17",
             "manylinux_2_24", "manylinux_2_27", "manylinux_2_28", "manylinux_2_31",
             "manylinux_2_34", "manylinux_2_35")


def download(requirement, folder, machine="x86_64", python="3.11"):
    """Downloads the requirement's wheel for that processor, without its dependencies."""
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-cache-dir",
                    "--no-deps", "--only-binary=:all:", "--python-version", python, *platforms,
                    "-d", str(folder), requirement], check=True)
    wheel, = folder.glob("*.whl")
    return wheel


def extract(wheel, folder, wanted):
    """Unpacks the members for which wanted(name) is true into the folder."""
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


def keep(requirement, folder, wanted, machine="x86_64"):
    """The folder with the wanted members of the wheel, which is downloaded if necessary."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            wheel = download(requirement, pathlib.Path(scratch), machine)
            print(f"  fetched {wheel.name}", flush=True)
            part = pathlib.Path(scratch) / "members"
            part.mkdir()
            extract(wheel, part, wanted)
            part.rename(folder)
    return folder


def machine_of(wheel_name):
    return "aarch64" if wheel_name.endswith("_aarch64") else "x86_64"


def keep_wheel(wheel_name, wanted):
    """As keep(), for the wheel `wheel_name` (without '.whl')."""
    name, version = wheel_name.split("-")[:2]
    return keep(f"{name}=={version}", CACHE / "extensions" / wheel_name, wanted,
                machine_of(wheel_name))


def libraries(wheel_name):
    """All shared libraries of the wheel."""
    return keep_wheel(wheel_name, LIBRARY.search)


def extensions(wheel_name, files):
    """Selects from the wheel the shared libraries `files` and the bundled libraries in its
    folder NAME.libs; record.py needs all of a wheel for aarch64."""
    if machine_of(wheel_name) == "aarch64":
        return libraries(wheel_name)
    return keep_wheel(wheel_name,
                      lambda member: member.rpartition("/")[2] in files or ".libs/" in member)
