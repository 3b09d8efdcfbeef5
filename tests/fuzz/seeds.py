#!/usr/bin/env python3
"""The seeds of the fuzz targets, which are in seeds.tar.xz as TARGET/NAME.

    seeds.py list [TARGET]         prints their names and sizes
    seeds.py show TARGET/NAME      prints one
    seeds.py add TARGET FILE ...   adds files, or replaces the seeds of the same names
    seeds.py remove TARGET/NAME ...
    seeds.py unpack FOLDER         writes FOLDER/TARGET/NAME; CMake unpacks to tests/seeds
    seeds.py pack FOLDER           makes the archive anew from FOLDER/TARGET/NAME

The archive depends on the names, the bytes and the executable bits of the seeds alone.
"""
import io
import lzma
import pathlib
import sys
import tarfile

ARCHIVE = pathlib.Path(__file__).resolve().parent / "seeds.tar.xz"


def read():
    """{TARGET/NAME: (bytes, whether it is executable)}"""
    with tarfile.open(ARCHIVE) as archive:
        return {entry.name: (archive.extractfile(entry).read(), bool(entry.mode & 0o100))
                for entry in archive}


def write(seeds):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (data, executable) in sorted(seeds.items()):
            entry = tarfile.TarInfo(name)  # without time and owner
            entry.size, entry.mode = len(data), 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    ARCHIVE.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def load(path):
    return path.read_bytes(), bool(path.stat().st_mode & 0o100)


def show_list(target=""):
    for name, (data, _) in read().items():
        if name.startswith(target and target + "/"):
            print(f"{len(data):6} {name}")


def show(name):
    sys.stdout.buffer.write(read()[name][0])


def add(target, *files):
    if not (ARCHIVE.parent / f"{target}.c").exists():
        sys.exit(f"error: there is no fuzz target '{target}'")
    paths = [pathlib.Path(file) for file in files]
    write({**read(), **{f"{target}/{path.name}": load(path) for path in paths}})


def remove(*names):
    seeds = read()
    for name in names:
        del seeds[name]
    write(seeds)


def unpack(folder):
    for name, (data, executable) in read().items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)


def pack(folder):
    paths = sorted(pathlib.Path(folder).glob("fuzz_*/*"))
    write({f"{path.parent.name}/{path.name}": load(path) for path in paths})


COMMANDS = {"list": show_list, "show": show, "add": add, "remove": remove, "unpack": unpack,
            "pack": pack}

if __name__ == "__main__":
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except (IndexError, TypeError):
        sys.exit(__doc__)
    except KeyError as name:
        sys.exit(f"error: there is no {name}")
