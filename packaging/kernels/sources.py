"""The sources of a pack: flash-attn's published sdist, and the stand-ins for torch's headers.

    folder = unpacked(download(cache), cache)     # or a folder that the user has
    check(folder)                                 # SystemExit unless it is that sdist's
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

RELEASE = "2.8.3.post2"
SDIST_SHA256 = "d0f9f0b08a986cdeadbffcf5ec8b3a8f514366c68ad1853d3ab061bc83cc340b"
#: SHA-256 of what digest() reads in the unpacked sdist.
TREE_SHA256 = "8027a17b513519162b695520fe2b18a358e77b2ea2cb21213cd000d3cb7c01be"
#: What packs and wheels are made of, in the sdist.
PARTS = ("LICENSE", "AUTHORS", "PKG-INFO", "flash_attn", "csrc/flash_attn/src",
         "csrc/cutlass/include")
KERNELS = "csrc/flash_attn/src"
INCLUDES = (KERNELS, "csrc/flash_attn", "csrc/cutlass/include")
#: Stand-ins for the two headers of torch that the kernels' files include.
TORCH_HEADERS = pathlib.Path(__file__).resolve().parent / "torch"
#: pip runs the sdist's setup.py to read its metadata, and that imports torch.
TORCH_MODULES = {
    "torch/__init__.py": "class version:\n    hip = None\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py":
        "from setuptools.command.build_ext import build_ext as BuildExtension\n"
        "def __getattr__(name):\n    return None\n",
}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_python(folder, packages):
    """The Python of a virtual environment that has these packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def download(cache):
    """The sdist in the folder `cache`, downloaded once; pip compares its hash."""
    sdist = cache / f"flash_attn-{RELEASE}.tar.gz"
    if sdist.exists() and sha256(sdist) == SDIST_SHA256:
        return sdist
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for name, text in TORCH_MODULES.items():
            path = scratch / "modules" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        wanted = scratch / "requirements.txt"
        wanted.write_text(f"flash-attn=={RELEASE} --hash=sha256:{SDIST_SHA256}\n")
        python = make_python(scratch / "venv", ["packaging", "psutil", "setuptools", "wheel"])
        environment = {**os.environ, "PYTHONPATH": str(scratch / "modules"),
                       "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}
        pip = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
               "--no-build-isolation", "--require-hashes", "-r", str(wanted)]
        subprocess.run([*pip, "-d", str(scratch)], check=True, env=environment)
        shutil.move(str(scratch / sdist.name), str(sdist))
    return sdist


def unpacked(sdist, cache):
    """The folder with the sdist's PARTS, unpacked once."""
    folder = cache / f"flash_attn-{RELEASE}"
    if all((folder / part).exists() for part in PARTS):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    part = cache / "unpacking"
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if member.isfile() and any((name + "/").startswith(one + "/") for one in PARTS):
                path = part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.extractfile(member).read())
    part.rename(folder)
    return folder


def digest(folder):
    """SHA-256 of the names and contents of all files of PARTS."""
    found = hashlib.sha256()
    for part in PARTS:
        root = folder / part
        for path in sorted([root, *root.rglob("*")]):
            if not path.is_file():
                continue
            found.update(f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n".encode())
    return found.hexdigest()


def check(folder):
    """Ends the program unless the folder has the published sources."""
    missing = [part for part in PARTS if not (folder / part).exists()]
    if missing:
        sys.exit(f"error: '{folder}' has no {missing[0]}; is it the sdist of flash-attn?")
    if digest(folder) != TREE_SHA256:
        sys.exit(f"error: the sources in '{folder}' are not those of flash-attn {RELEASE}")


def licences(folder):
    """The licences of flash-attn and of CUTLASS, whose code is in the kernels."""
    header = (folder / "csrc/cutlass/include/cutlass/cutlass.h").read_text()
    comment = header[:header.index("*/")].splitlines()[1:-1]
    cutlass = "\n".join(line[3:].rstrip() if line.startswith(" * ") else "" for line in comment)
    return (f"flash-attn {RELEASE}\n\n{(folder / 'LICENSE').read_text().strip()}\n\n\n"
            f"CUTLASS\n\n{cutlass.strip()}\n")
