#!/usr/bin/env python3
"""Adds builds of torch to the table of their exports: data/torch_symbols.json and .bin.

    make_torch_symbols.py --build 2.9.1+cu128 --source "PyPI" \\
        torch-2.9.1-...whl nvidia_cublas_cu12-...whl ...

reads the shared libraries of a torch wheel (or of an installed torch's folder, or of a dump)
and of the CUDA wheels that it depends on, and adds the build, or replaces it. `torch==2.9.1` is
the wheel for --platform on the package index, of which only the libraries are downloaded. The
names of the other builds are not needed: the table contains only hashes. `--list` prints what
the table holds, `--find NAME` which builds define a name.

A dump is text, optionally compressed with zstd (then the program zstd is needed), with lines
`F file`, `S soname`, `N needed`, `D bind type visibility name version [size]`, `P pybind
internals`; `--dump` writes one instead of adding to the table.

Form of the .bin, numbers little-endian: "AFS1", u32 names, patterns, builds; then for each of
65,536 values of a hash's first 16 bits, u8 how many names have it; the other 32 bits of each
name's hash, u32, in order of the hashes; u16 pattern of each name; u64 for each pattern and
build: bit i says that the build's library i defines the name. The builds and their libraries
are in the .json, in the same order. The hash is 48 bits: see hash_of().
"""
import argparse
import datetime
import io
import json
import mmap
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

import remote_wheel

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "torch_symbols.json"
MAGIC = b"AFS1"
LIBRARIES_MAX = 64
# Shared libraries of a wheel, without programs, tests and Python modules.
LIBRARY_NAME = re.compile(r"\.so(\.[0-9.]+)?$")
LIBRARY_FOLDER = re.compile(r"/lib/|\.libs/")
NOT_LIBRARIES = re.compile(r"/(bin|test|stubs)/|_C\.|stub|_test\.|"
                           "libaoti_custom_ops|libbackend_with_compiler")
PYBIND = re.compile(rb"__pybind11_internals_v[0-9A-Za-z_]+__")
ABI_MARK = "_ZN3c106detail14torchCheckFailEPKcS2_jRK"
TENSOR_VTABLE = "_ZTVN3c1010TensorImplE"
SHT_STRTAB, SHT_DYNAMIC, SHT_DYNSYM, SHT_VERDEF, SHT_VERSYM = 3, 6, 11, 0x6ffffffd, 0x6fffffff
DT_NEEDED, DT_SONAME = 1, 14


def hash_of(name):
    """The upper 48 bits of 64-bit FNV-1a, mixed by the final step of MurmurHash3."""
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    value ^= value >> 33
    value = value * 0xff51afd7ed558ccd & 0xffffffffffffffff
    value ^= value >> 33
    value = value * 0xc4ceb9fe1a85ec53 & 0xffffffffffffffff
    value ^= value >> 33
    return value >> 16


# --- one shared library ---

class Library:
    """What a shared library exports and needs."""

    def __init__(self, file, origin):
        self.file, self.origin = file, origin
        self.soname, self.needed, self.versions = None, [], []
        self.symbols, self.sizes, self.pybind = {}, {}, []

    @property
    def name(self):
        return self.soname or self.file

    def add(self, name, version, size=None):
        self.symbols[name] = version
        if version and version not in self.versions:
            self.versions.append(version)
        if name == TENSOR_VTABLE and size:
            self.sizes[name] = size


def text_at(strings, offset):
    return strings[offset:strings.index(b"\0", offset)].decode("utf-8", "replace")


def read_sections(image):
    """{type: (offset, size, link)} of an ELF file of 64 bits, and all sections in order."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    rows = [struct.unpack_from("<IIQQQQII", image, table + i * size) for i in range(count)]
    return {row[1]: row for row in rows if row[1] != SHT_STRTAB}, rows


def read_version_names(image, sections, rows):
    """{index: name} of the versions that the library defines, without its own name."""
    names, row = {}, sections.get(SHT_VERDEF)
    if row is None:
        return names
    strings = image[rows[row[6]][4]:rows[row[6]][4] + rows[row[6]][5]]
    at = row[4]
    while True:
        _, flags, index, _, _, aux, step = struct.unpack_from("<HHHHIII", image, at)
        name, = struct.unpack_from("<I", image, at + aux)
        if not flags & 1:
            names[index] = text_at(strings, name)
        if step == 0:
            return names
        at += step


def read_library(image, file, origin):
    library = Library(file, origin)
    sections, rows = read_sections(image)
    if SHT_DYNSYM not in sections or SHT_DYNAMIC not in sections:
        raise ValueError("no dynamic symbols")
    table = sections[SHT_DYNSYM]
    link = rows[table[6]]
    strings = bytes(image[link[4]:link[4] + link[5]])
    for tag, value in struct.iter_unpack("<QQ", image[sections[SHT_DYNAMIC][4]:]
                                         [:sections[SHT_DYNAMIC][5]]):
        if tag == DT_NEEDED:
            library.needed.append(text_at(strings, value))
        elif tag == DT_SONAME:
            library.soname = text_at(strings, value)
        elif tag == 0:
            break
    versions = read_version_names(image, sections, rows)
    library.versions = list(dict.fromkeys(versions.values()))
    marks = sections.get(SHT_VERSYM)
    for i, (name, info, other, shndx, _, size) in enumerate(
            struct.iter_unpack("<IBBHQQ", image[table[4]:table[4] + table[5]])):
        if name == 0 or shndx == 0 or info >> 4 == 0 or other & 3 in (1, 2):
            continue
        mark = struct.unpack_from("<H", image, marks[4] + 2 * i)[0] & 0x7fff if marks else 1
        library.add(text_at(strings, name), versions.get(mark), size)
    if file.startswith("libtorch_python"):
        library.pybind = sorted({hit.decode() for hit in PYBIND.findall(image)})
    return library


def map_library(path, origin):
    with open(path, "rb") as stream, \
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        return read_library(image, pathlib.Path(path).name, origin)


# --- where libraries are: a folder, a wheel, a dump ---

def is_library(path):
    return bool(LIBRARY_NAME.search(path)) and not NOT_LIBRARIES.search("/" + path)


def read_folder(folder, _):
    root = folder / "torch" if (folder / "torch" / "lib").is_dir() else folder
    for path in sorted(root.glob("**/lib/*.so*")):
        if is_library(str(path.relative_to(root))):
            yield map_library(path, "torch" if root.name == "torch" else root.name)


def read_members(name, archive, scratch):
    parts = name.split("-")
    origin = "torch" if parts[0] == "torch" else f"{parts[0].replace('_', '-')} {parts[1]}"
    with archive as wheel:
        for member in sorted(wheel.namelist()):
            if not LIBRARY_FOLDER.search(member) or not is_library(member):
                continue
            target = scratch / pathlib.PurePosixPath(member).name
            with wheel.open(member) as source, open(target, "wb") as to:
                while block := source.read(1 << 24):
                    to.write(block)
            yield map_library(target, origin)
            target.unlink()


def read_wheel(path, scratch):
    return read_members(path.name, zipfile.ZipFile(path), scratch)


def read_dump(path, _):
    if path.suffix == ".zst":
        text = subprocess.run(["zstd", "-dc", str(path)], stdout=subprocess.PIPE,
                              check=True).stdout.decode()
    else:
        text = path.read_text()
    library = None
    for line in io.StringIO(text):
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "F":
            if library:
                yield library
            file, _, origin = rest.partition(" ")
            library = Library(file.rpartition("/")[2], origin or "torch")
        elif kind == "S":
            library.soname = rest
        elif kind == "N":
            library.needed.append(rest)
        elif kind == "P":
            library.pybind.append(rest)
        elif kind == "D":
            words = rest.split(" ")
            library.add(words[3], None if words[4] == "-" else words[4],
                        int(words[5]) if len(words) > 5 else None)
    if library:
        yield library


def read_input(word, platform, scratch):
    path = pathlib.Path(word)
    if "==" in word:
        return read_members(*remote_wheel.open_wheel(word, platform), scratch)
    read = read_folder if path.is_dir() else read_wheel if path.suffix == ".whl" else read_dump
    return read(path, scratch)


def read_inputs(words, platform):
    """Every library of the inputs, in their order; a name counts once."""
    libraries = {}
    with tempfile.TemporaryDirectory() as scratch:
        for word in words:
            for library in read_input(word, platform, pathlib.Path(scratch)):
                libraries.setdefault(library.name, library)
    return list(libraries.values())


def reached(libraries):
    """torch's libraries and all that they need, directly or not: no others are loaded."""
    known = {name: library for library in libraries for name in (library.name, library.file)}
    queue = [library for library in libraries if library.origin == "torch"]
    for library in queue:
        queue += [known[name] for name in dict.fromkeys(library.needed)
                  if name in known and known[name] not in queue]
    return [library for library in libraries if library in queue]


def write_dump(libraries, out):
    for library in libraries:
        out.write(f"F {library.file} {library.origin}\n")
        out.write(f"S {library.soname}\n" if library.soname else "")
        out.writelines(f"N {name}\n" for name in library.needed)
        out.writelines(f"P {name}\n" for name in library.pybind)
        out.writelines(f"D - - - {name} {version or '-'} {library.sizes.get(name, 0)}\n"
                       for name, version in library.symbols.items())


# --- the table ---

KEY = ("version", "variant", "platform")


def sort_key(build):
    version = [int(part) for part in build["version"].split(".")]
    return version, build["platform"], build["variant"]


class Table:
    """{hash: one mask per build}, and the builds' descriptions."""

    def __init__(self, path):
        self.path = path
        self.document = {"about": "", "date": "", "builds": []}
        self.names = {}
        if path.exists():
            self.document = json.loads(path.read_text())
            self.read(path.with_suffix(".bin").read_bytes())

    @property
    def builds(self):
        return self.document["builds"]

    def read(self, data):
        names, patterns, builds = struct.unpack_from("<III", data, 4)
        if data[:4] != MAGIC or builds != len(self.builds):
            raise SystemExit("the table is of another form")
        counts = data[16:16 + 65536]
        low = struct.unpack_from(f"<{names}I", data, 65552)
        kind = struct.unpack_from(f"<{names}H", data, 65552 + 4 * names)
        masks = struct.unpack_from(f"<{patterns * builds}Q", data, 65552 + 6 * names)
        at = 0
        for high, count in enumerate(counts):
            for i in range(at, at + count):
                self.names[high << 32 | low[i]] = \
                    list(masks[kind[i] * builds:(kind[i] + 1) * builds])
            at += count

    def place(self, key):
        """The build's column: a new one, or the existing one, emptied."""
        for i, build in enumerate(self.builds):
            if tuple(build[name] for name in KEY) == key:
                for masks in self.names.values():
                    masks[i] = 0
                return i
        i = sum(sort_key(build) < sort_key(dict(zip(KEY, key))) for build in self.builds)
        self.builds.insert(i, None)
        for masks in self.names.values():
            masks.insert(i, 0)
        return i

    def add(self, build, libraries):
        i = self.place(tuple(build[name] for name in KEY))
        self.builds[i] = build
        seen = {}
        for bit, library in enumerate(libraries):
            for name in library.symbols:
                value = hash_of(name)
                if seen.setdefault(value, name) != name:
                    raise SystemExit(f"'{name}' and '{seen[value]}' have one hash")
                masks = self.names.setdefault(value, [0] * len(self.builds))
                masks[i] |= 1 << bit

    def write(self):
        names = {value: tuple(masks) for value, masks in self.names.items() if any(masks)}
        frequent = {}
        for masks in names.values():
            frequent[masks] = frequent.get(masks, 0) + 1
        patterns = sorted(frequent, key=lambda masks: (-frequent[masks], masks))
        if len(patterns) > 65536:
            raise SystemExit("more than 65,536 patterns")
        number = {masks: i for i, masks in enumerate(patterns)}
        order = sorted(names)
        counts = [0] * 65536
        for value in order:
            counts[value >> 32] += 1
        data = MAGIC + struct.pack("<III", len(order), len(patterns), len(self.builds))
        data += bytes(counts)
        data += struct.pack(f"<{len(order)}I", *(value & 0xffffffff for value in order))
        data += struct.pack(f"<{len(order)}H", *(number[names[value]] for value in order))
        data += b"".join(struct.pack(f"<{len(masks)}Q", *masks) for masks in patterns)
        self.path.with_suffix(".bin").write_bytes(data)
        self.path.write_text(json.dumps(self.document, indent=1) + "\n")


def abi_of(libraries):
    """Whether libc10 uses C++11's std::string ABI, judged by a function that takes a string."""
    for library in libraries:
        if library.name == "libc10.so":
            return any(name.startswith(ABI_MARK + "NSt7__cxx11") for name in library.symbols)
    return None


def describe(libraries, arguments):
    version, _, variant = arguments.build.partition("+")
    torch = {library.name: library for library in libraries if library.origin == "torch"}
    cudart = [name for name in torch.get("libc10_cuda.so", Library("", "")).needed
              if name.startswith("libcudart.so")]
    sizes = [size for library in libraries for size in library.sizes.values()]
    return {"version": version, "variant": variant, "platform": arguments.platform,
            "source": arguments.source, "date": arguments.date, "cxx11abi": abi_of(libraries),
            "cudart": cudart[0] if cudart else None,
            "pybind_internals": (arguments.pybind or [p for library in libraries
                                                      for p in library.pybind] or [None])[0],
            "tensor_vtable_bytes": arguments.vtable or (sizes[0] if sizes else None),
            "libraries": [{"name": library.name, "origin": library.origin,
                           "file": library.file, "needed": library.needed,
                           "versions": library.versions,
                           "symbols": len(library.symbols)} for library in libraries]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="*", metavar="WHEEL|torch==X|FOLDER|DUMP")
    parser.add_argument("--table", type=pathlib.Path, default=DATA)
    parser.add_argument("--build", metavar="2.9.1+cu128")
    parser.add_argument("--platform", default="linux_x86_64")
    parser.add_argument("--source", default="the wheel on PyPI")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--pybind", nargs=1, help="pybind internals that the input lacks")
    parser.add_argument("--vtable", type=int, help="bytes of TensorImpl's vtable, too")
    parser.add_argument("--dump", metavar="FILE", help="write a dump instead")
    parser.add_argument("--find", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def show(table, arguments):
    masks = table.names.get(hash_of(arguments.find or ""), [0] * len(table.builds))
    for build, mask in zip(table.builds, masks):
        libraries = build["libraries"]
        found = [library["name"] for i, library in enumerate(libraries) if mask >> i & 1]
        title = f"{build['version']}+{build['variant']} {build['platform']}"
        print(title, *(found if arguments.find else
                       [sum(library["symbols"] for library in libraries), build["source"]]))


def main():
    arguments = parse_arguments()
    if arguments.list or arguments.find:
        show(Table(arguments.table), arguments)
        return 0
    libraries = read_inputs(arguments.inputs, arguments.platform)
    if arguments.dump:
        with open(arguments.dump, "w", encoding="utf-8") as out:
            write_dump(libraries, out)
        return 0
    if not arguments.build or not libraries:
        raise SystemExit("say --build, and where its libraries are")
    libraries = reached(libraries)
    if len(libraries) > LIBRARIES_MAX:
        raise SystemExit(f"{len(libraries)} libraries; a build has {LIBRARIES_MAX} at most")
    table = Table(arguments.table)
    table.add(describe(libraries, arguments), libraries)
    table.document["date"] = max(build["date"] for build in table.builds)
    table.document["about"] = "What builds of torch and the CUDA libraries they bring export."
    table.write()
    print(f"{arguments.build}: {len(libraries)} libraries, "
          f"{sum(len(library.symbols) for library in libraries)} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
