"""Unpacks a source archive: python unpack.py ARCHIVE FOLDER

Extracts only plain files and folders inside FOLDER, up to a limit; links, devices and absolute
names are refused. The archive's single top folder becomes FOLDER, atomically.
"""

import glob
import os
import pathlib
import shutil
import sys
import tarfile

FILES_MAX = 50_000
BYTES_MAX = 1 << 30


def members_of(archive):
    """(name below the top folder, member) of all plain files."""
    total = count = 0
    top = None
    for member in archive:
        parts = pathlib.PurePosixPath(member.name).parts
        count += 1
        total += member.size
        if count > FILES_MAX or total > BYTES_MAX:
            raise SystemExit("the archive is larger than a source archive may be")
        if not parts or parts[0] == "/" or ".." in parts:
            raise SystemExit(f"the archive has the unsafe name {member.name!r}")
        if not (member.isfile() or member.isdir()):
            raise SystemExit(
                f"the archive contains {member.name!r}, which is neither a file nor a folder")
        if top not in (None, parts[0]):
            raise SystemExit("the archive has more than one top folder")
        top = parts[0]
        if member.isfile():
            yield os.path.join(*parts[1:]) if len(parts) > 1 else parts[0], member


def main():
    source, folder = sys.argv[1], sys.argv[2]
    for left in glob.glob(f"{glob.escape(folder)}.*"):  # from a killed process
        shutil.rmtree(left, ignore_errors=True)
    staged = f"{folder}.{os.getpid()}"
    try:
        with tarfile.open(source, "r:gz") as archive:
            for name, member in members_of(archive):
                path = os.path.join(staged, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "xb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(staged, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SystemExit(f"cannot unpack {os.path.basename(source)}: {error}")
    finally:
        shutil.rmtree(staged, ignore_errors=True)


if __name__ == "__main__":
    main()
