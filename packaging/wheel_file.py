"""Reads wheels, and writes them so that equal contents are equal bytes: sorted names, one time,
plain permissions, one compression.

    files = read(path)              # {name: (bytes, whether it is executable)}
    write(path, files)              # with a new RECORD

The time of all files is $SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import time
import zipfile

#: The oldest time that a zip file can hold, 1980-01-02.
OLDEST = 315619200


def epoch():
    """Seconds since 1970 that go into files: $SOURCE_DATE_EPOCH, or the oldest possible."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), OLDEST)


def read(path):
    with zipfile.ZipFile(path) as wheel:
        return {
            info.filename: (wheel.read(info), bool(info.external_attr >> 16 & 0o100))
            for info in wheel.infolist()
            if not info.is_dir()
        }


def info_folder(files):
    """The name of the folder *.dist-info among the files."""
    (folder,) = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    return folder


def _record(files, own):
    rows = []
    for name, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
        rows.append(f"{name},sha256={digest.rstrip('=')},{len(content)}\n")
    return "".join(rows) + f"{own},,\n"


def write(path, files):
    record = f"{info_folder(files)}/RECORD"
    files = {name: found for name, found in files.items() if name != record}
    files[record] = _record(files, record).encode(), False
    when = time.gmtime(epoch())[:6]
    with zipfile.ZipFile(path, "w") as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            content, is_executable = files[name]
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix, so that permissions count
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content, compresslevel=9)
