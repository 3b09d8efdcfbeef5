#!/usr/bin/env python3
"""Writes what is inside our binaries as a CycloneDX document: the libraries that are linked
statically, with version, licence and the hash of their source.

    sbom.py wheel WHEEL...          # puts it into each wheel, in .dist-info/sboms/ (PEP 770)
    sbom.py program PROGRAM FILE    # writes it for a static program

The libraries are those of packaging/sources.tsv; a wheel without the program contains none of
them. A static program contains a C library, too, and a library for Windows its start-up code
and threads: those of zig.
"""

import csv
import hashlib
import json
import pathlib
import re
import sys

import wheel_file
from version import version

SOURCES = pathlib.Path(__file__).with_name("sources.tsv")
TOOLS = pathlib.Path(__file__).with_name("requirements.txt")
#: SPDX identifiers, by the names of Debian's source packages; licenses/ has the texts.
LICENSES = {
    "jansson": "MIT",
    "libzstd": "BSD-3-Clause",
    "lz4": "BSD-2-Clause",
    "sqlite3": "blessing",
    "zlib": "Zlib",
}
#: What zig links on systems whose C library it brings: licence, and which part.
OF_ZIG = {
    "mingw-w64": ("ZPL-2.1 AND MIT", "start-up code and POSIX threads"),
    "musl": ("MIT", "the C library"),
}
NAME = "anyflash.cdx.json"


def libraries(names=tuple(LICENSES)):
    """Components of sources.tsv with these names; the hash is that of Debian's .dsc, which has
    the sources'."""
    with open(SOURCES, newline="") as rows:
        for row in csv.DictReader(rows, delimiter="\t"):
            name, number = row["package"], row["version"]
            if name not in names:
                continue
            yield {
                "type": "library",
                "name": name,
                "version": number.partition(":")[2] or number,
                "purl": f"pkg:deb/debian/{name}@{number.replace(':', '%3A')}?arch=source",
                "licenses": [{"license": {"id": LICENSES[name]}}],
                "hashes": [{"alg": "SHA-256", "content": row["sha256_of_dsc"]}],
            }


def of_zig(name):
    expression, part = OF_ZIG[name]
    zig = re.search(r"^ziglang==(\S+)", TOOLS.read_text(), re.M)[1]
    return {
        "type": "library",
        "name": name,
        "description": f"{part}, from the package ziglang {zig}",
        "licenses": [{"expression": expression}],
    }


def document(components, hashes=()):
    about = {
        "type": "application",
        "name": "anyflash",
        "version": version(),
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
    }
    if hashes:
        about["hashes"] = list(hashes)
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": components,
    }
    return (json.dumps(found, indent=1) + "\n").encode()


def into_wheel(path):
    files = wheel_file.read(path)
    components = list(libraries()) if "anyflash/bin/anyflash" in files else []
    if "anyflash/anyflash.dll" in files:
        components += [of_zig("mingw-w64"), *libraries(("libzstd",))]
    name = f"{wheel_file.info_folder(files)}/sboms/{NAME}"
    wheel_file.write(path, {**files, name: (document(components), False)})


def of_program(program, path):
    digest = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()
    hashes = [{"alg": "SHA-256", "content": digest}]
    pathlib.Path(path).write_bytes(document([*libraries(), of_zig("musl")], hashes))


def main():
    what, *paths = sys.argv[1:] or ["--help"]
    if what == "wheel" and paths:
        for path in paths:
            into_wheel(path)
    elif what == "program" and len(paths) == 2:
        of_program(*paths)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
