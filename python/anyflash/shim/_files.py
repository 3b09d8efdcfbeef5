"""The files of the shim: staged in site-packages, moved into place by renames, and removed.

    install(site), remove(site), changed(site)

`anyflash run` makes a wheel of the same files, for pip or uv: as any version of flash-attn, and
with the package anyflash inside if that is not installed on its own.

The metadata is moved in last and out first, so that it exists only with a complete package. An
interrupted run leaves at most the package without metadata, or a folder named STAGING*, both of
which the next install() or remove() clears.
"""

import base64
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import signal
import tempfile

from .._version import __version__

#: Within the range that all programs accept; without a suffix, which some would treat as newer.
VERSION = "2.8.3"
INSTALLER = "anyflash"
MARK = "__anyflash__"
INFO = f"flash_attn-{VERSION}.dist-info"
STAGING = ".anyflash-shim-"
_TREE = pathlib.Path(__file__).parent / "tree"
#: FlashAttention-3's module, which is installed only when it is asked for.
INTERFACE = "flash_attn_interface.py"
#: In the order in which they are moved into place.
_NAMES = ("flash_attn_2_cuda.py", INTERFACE, "flash_attn", INFO)

_METADATA = f"""Metadata-Version: 2.1
Name: flash-attn
Version: {VERSION}
Summary: Modules of flash-attn, generated on this machine by anyflash, which computes them
License: BSD-3-Clause
Requires-Python: >=3.9
Requires-Dist: anyflash
Requires-Dist: torch

Not the project flash-attn: modules and functions with its names, computed by anyflash.
Names and signatures follow flash-attention, BSD-3-Clause, (c) 2022 its contributors.
Remove it with `anyflash shim remove`, or like any package with pip or uv.
"""
_WHEEL = f"""Wheel-Version: 1.0
Generator: anyflash {__version__}
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _digest(path):
    hashed = hashlib.sha256(path.read_bytes()).digest()
    return "sha256=" + base64.urlsafe_b64encode(hashed).decode().rstrip("=")


def _stage(folder, with_interface):
    shutil.copytree(_TREE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if not with_interface:
        (folder / INTERFACE).unlink()
    info = folder / INFO
    info.mkdir()
    (info / "METADATA").write_text(_METADATA)
    (info / "WHEEL").write_text(_WHEEL)
    (info / "INSTALLER").write_text(INSTALLER + "\n")
    modules = ["flash_attn", "flash_attn_2_cuda"] + ["flash_attn_interface"] * with_interface
    (info / "top_level.txt").write_text("".join(f"{name}\n" for name in modules))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in files}
    rows = [f"{name},{_digest(p)},{p.stat().st_size}\n" for p, name in names.items()]
    (info / "RECORD").write_text("".join(rows) + f"{INFO}/RECORD,,\n")


@contextlib.contextmanager
def _uninterrupted():
    """Delays Ctrl-C until the block ends.

    Windows has no signal masks, so nothing is delayed there.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@_uninterrupted()
def _move(moves):
    """Renames; if one fails, undoes those before it."""
    done = []
    try:
        for source, target in moves:
            os.rename(source, target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            os.rename(target, source)
        raise


def _clear_staging(site):
    for left in site.glob(STAGING + "*"):
        shutil.rmtree(left, ignore_errors=True)


def information(site):
    """The dist-info folder of the shim in the folder `site`, which need not exist."""
    for folder in sorted(site.glob("flash_attn-*.dist-info")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if re.search("^Generator: anyflash [0-9]", (folder / "WHEEL").read_text(), re.M):
                return folder
    return site / INFO


def has_package(site):
    """Whether the package anyflash in the folder `site` is a part of the shim."""
    with contextlib.suppress(OSError):
        rows = (information(site) / "RECORD").read_text().splitlines()
        owned = any(row.startswith("anyflash/__init__.py,") for row in rows)
        return owned and not any(site.glob("anyflash-*.dist-info"))
    return False


def _names(site):
    """The shim's files and folders in `site`, in the order in which they are put there."""
    package = ("anyflash",) if has_package(site) else ()
    return (*package, *_NAMES[:-1], information(site).name)


def _is_inside(site, name, names):
    """Whether a path of RECORD lies in the shim's files and folders, with links followed."""
    place, path = pathlib.Path(site).resolve(), pathlib.Path(site, name)
    path = path.parent.resolve() / path.name
    return (
        place in path.parents
        and path.relative_to(place).parts[0] in names
        and path.name != ".."
    )


def _recorded(site):
    """{path: hash} of the files of the shim. Rows that name anything else are ignored."""
    rows = (information(site) / "RECORD").read_text().splitlines()
    cells = [(row + ",").split(",")[:2] for row in rows if row]
    names = _names(site)
    return {site / name: digest for name, digest in cells if _is_inside(site, name, names)}


def _is_marked(path):
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return MARK in path.read_text()
    return False


def is_ours(site):
    """Whether the package in the folder `site` is the shim, complete or not."""
    return _is_marked(site / "flash_attn" / "__init__.py")


def has_interface(site):
    """Whether FlashAttention-3's module in the folder `site` is ours."""
    return _is_marked(site / INTERFACE)


def _there(site):
    """Our files and folders in `site`, the metadata first."""
    return [
        name
        for name in reversed(_names(site))
        if os.path.lexists(site / name) and (name != INTERFACE or has_interface(site))
    ]


def strangers(site):
    """Files of other packages in the shim's folder."""
    try:
        known = set(_recorded(site))
    except OSError:
        known = {site / p.relative_to(_TREE) for p in _TREE.rglob("*.py")}
    folder = site / "flash_attn"
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path not in known and path.parent.name != "__pycache__"
    ]


def changed(site):
    """Recorded files that are missing or were changed."""
    return [
        path
        for path, digest in _recorded(site).items()
        if digest and (not path.is_file() or _digest(path) != digest)
    ]


def made_by(site):
    """The version of anyflash that installed the shim."""
    for line in (information(site) / "WHEEL").read_text().splitlines():
        if line.startswith("Generator: anyflash "):
            return line.rpartition(" ")[2]
    return "unknown"


def install(site, with_interface=False):
    """Installs the shim into the folder `site`, replacing an existing one."""
    _clear_staging(site)
    staging = pathlib.Path(tempfile.mkdtemp(prefix=STAGING, dir=site))
    try:
        _stage(staging / "new", with_interface)
        (staging / "old").mkdir()
        new = [name for name in _NAMES if name != INTERFACE or with_interface]
        _move(
            [(site / name, staging / "old" / name) for name in _there(site)]
            + [(staging / "new" / name, site / name) for name in new]
        )
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_beside_strangers(site, files):
    """Removes the shim's files one by one, and leaves those of other packages."""
    (site / "flash_attn" / "__init__.py").unlink()
    for path in files:
        if path.is_symlink() or path.is_file():
            path.unlink()
    for folder in sorted((site / "flash_attn").rglob("*"), reverse=True):
        if folder.name == "__pycache__":
            shutil.rmtree(folder)
        elif folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def remove(site):
    """Removes the shim from the folder `site`."""
    _clear_staging(site)
    others = strangers(site)
    try:
        files = list(_recorded(site))
    except OSError:
        files = []
    staging = pathlib.Path(tempfile.mkdtemp(prefix=STAGING, dir=site))
    try:
        there = [name for name in _there(site) if name != "flash_attn" or not others]
        _move([(site / name, staging / name) for name in there])
        if others:
            _remove_beside_strangers(site, files)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
