"""Writes and reads a pack: one file with many PTX modules, as docs/reference/pack.md says.

    writer = Writer()
    writer.add_licence(text)
    writer.add_kernels([("af_fill", [piece, ...]), ...])    # as often as there are groups
    writer.write(path, about)

    pack = Pack(path)
    pack.kernels            # {name: (family, [(offset, length), ...])}
    pack.module("af_fill")

Kernels that are added together are compressed together, in their order, and equal pieces are
stored once. The program zstd compresses; where there is none, texts are stored as they are, in
frames of zstd without compression. Equal input gives equal bytes. A damaged file raises
Damaged, whose text says what is wrong.
"""

import concurrent.futures
import ctypes
import functools
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

MAGIC = b"afkern1\n"
HEAD = struct.Struct("<8sQ32s")
#: Whoever wants one kernel decompresses its family, which must take less than 10 ms.
FAMILY_BYTES_MAX = 8 << 20
INDEX_BYTES_MAX = 16 << 20


class Damaged(ValueError):
    """The file is not a complete pack."""


#: A frame of one segment that states size and checksum of its content (RFC 8878, 3.1.1).
STORED = struct.Struct("<IBQ")
STORED_START = 0xFD2FB528, 0xE4
BLOCK_BYTES_MAX = 128 << 10


PRIMES = (11400714785074694791, 14029467366897019727, 1609587929392839161,
          9650029242287828579, 2870177450012600261)
U64 = (1 << 64) - 1


def mixed(lane, number):
    lane = (lane + number * PRIMES[1]) & U64
    return ((lane << 31 | lane >> 33) * PRIMES[0]) & U64


def checksum(raw):
    """XXH64 with seed 0, the lower 32 bits of which end a frame of zstd."""
    p1, p2, p3, p4, p5 = PRIMES
    whole, total = len(raw) & ~31, p5
    if whole:
        lanes = [p1 + p2 & U64, p2, 0, -p1 & U64]
        for numbers in struct.iter_unpack("<4Q", memoryview(raw)[:whole]):
            lanes = [mixed(lane, number) for lane, number in zip(lanes, numbers)]
        total = sum(lane << turn | lane >> 64 - turn
                    for lane, turn in zip(lanes, (1, 7, 12, 18))) & U64
        for lane in lanes:
            total = ((total ^ mixed(0, lane)) * p1 + p4) & U64
    total, at = total + len(raw) & U64, whole
    for size, turn, first, second, last in ((8, 27, None, p1, p4), (4, 23, p1, p2, p3),
                                            (1, 11, p5, p1, 0)):
        while len(raw) - at >= size:
            number = int.from_bytes(raw[at:at + size], "little")
            total ^= mixed(0, number) if first is None else number * first & U64
            total = ((total << turn | total >> 64 - turn) * second + last) & U64
            at += size
    total = (total ^ total >> 33) * p2 & U64
    total = (total ^ total >> 29) * p3 & U64
    return total ^ total >> 32


def stored(raw):
    """One zstd frame, whose blocks are not compressed."""
    starts = range(0, max(len(raw), 1), BLOCK_BYTES_MAX)
    blocks = [raw[at:at + BLOCK_BYTES_MAX] for at in starts]
    heads = [len(block) << 3 for block in blocks]
    heads[-1] |= 1  # the last one
    return STORED.pack(*STORED_START, len(raw)) + b"".join(
        head.to_bytes(3, "little") + block for head, block in zip(heads, blocks)
    ) + (checksum(raw) & 0xFFFFFFFF).to_bytes(4, "little")


def stored_content(packed):
    """What stored() was given; None if another program made the frame."""
    if len(packed) < STORED.size or STORED.unpack_from(packed)[:2] != STORED_START:
        return None
    raw, at, head = [], STORED.size, 0
    while not head & 1:
        head = int.from_bytes(packed[at:at + 3], "little")
        if head & 6 or at + 3 + (head >> 3) > len(packed):
            return None
        raw.append(packed[at + 3:at + 3 + (head >> 3)])
        at += 3 + (head >> 3)
    raw = b"".join(raw)
    good = STORED.unpack_from(packed)[2] == len(raw) and (
        checksum(raw) & 0xFFFFFFFF).to_bytes(4, "little") == packed[at:]
    return raw if good else None


def compress(raw):
    """One zstd frame, which states the size and the checksum of its content."""
    if not shutil.which("zstd"):
        return stored(raw)
    command = ["zstd", "-q", "-c", "-19", "--single-thread", "--check",
               f"--stream-size={len(raw)}"]
    return subprocess.run(command, input=raw, check=True, stdout=subprocess.PIPE).stdout


@functools.cache
def find_library():
    """libzstd, which nearly every Linux has; or None."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
        library.ZSTD_decompress.restype = ctypes.c_size_t
        library.ZSTD_decompress.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p,
                                            ctypes.c_size_t)
        library.ZSTD_getFrameContentSize.restype = ctypes.c_uint64
        library.ZSTD_getFrameContentSize.argtypes = ctypes.c_char_p, ctypes.c_size_t
        library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    except (OSError, AttributeError):
        return None
    return library


def decompress(packed, bytes_max, what):
    """The content of a zstd frame, which is `what` of a pack, at most bytes_max bytes."""
    raw = stored_content(packed)
    if raw is not None:
        if len(raw) > bytes_max:
            raise Damaged(f"{what} has more than {bytes_max} bytes")
        return raw
    library = find_library()
    if library:
        size = library.ZSTD_getFrameContentSize(packed, len(packed))
        if bytes_max < size < 1 << 63:  # above are unknown sizes and errors
            raise Damaged(f"{what} has more than {bytes_max} bytes")
        raw = ctypes.create_string_buffer(bytes_max + 1)
        size = library.ZSTD_decompress(raw, len(raw), packed, len(packed))
        if library.ZSTD_isError(size):
            raise Damaged(f"{what} cannot be decompressed")
        return raw.raw[:size]
    if not shutil.which("zstd"):
        raise Damaged(f"{what} is compressed, and neither libzstd nor the program zstd is here")
    with tempfile.TemporaryFile() as given:
        given.write(packed)
        given.seek(0)
        with subprocess.Popen(["zstd", "-q", "-d", "-c"], stdin=given, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as zstd:
            raw = zstd.stdout.read(bytes_max + 1)
            zstd.stdout.close()
    if len(raw) > bytes_max:
        raise Damaged(f"{what} has more than {bytes_max} bytes")
    if zstd.returncode != 0:
        raise Damaged(f"{what} cannot be decompressed")
    return raw


class Family:
    """Texts that are compressed together."""

    def __init__(self):
        self.raw = bytearray()
        self.places = {}

    def new_bytes(self, pieces):
        return sum(len(piece) for piece in set(pieces) - self.places.keys())

    def add(self, pieces):
        """Where the pieces lie, [[offset, length], ...]; neighbours are joined."""
        found = []
        for piece in pieces:
            if piece not in self.places:
                self.places[piece] = len(self.raw)
                self.raw += piece
            offset = self.places[piece]
            if found and sum(found[-1]) == offset:
                found[-1][1] += len(piece)
            else:
                found.append([offset, len(piece)])
        return found


class Writer:
    def __init__(self):
        self.licence = None
        self.kernels = {}
        self.families = []  # (raw size, the compressed bytes, which are being made)
        cores = os.cpu_count() or 1
        self.compressors = concurrent.futures.ThreadPoolExecutor(cores)

    def close(self, family):
        packed = self.compressors.submit(compress, bytes(family.raw))
        self.families.append((len(family.raw), packed))

    def add_licence(self, text):
        family = Family()
        family.add([text.encode()])
        self.licence = len(self.families)
        self.close(family)

    def add_kernels(self, kernels):
        """Adds modules, [(name, pieces)]; as many families as they need."""
        family = Family()
        for name, pieces in kernels:
            if name in self.kernels:
                raise ValueError(f"two kernels are named '{name}'")
            pieces = [piece.encode() for piece in pieces]
            if family.raw and len(family.raw) + family.new_bytes(pieces) > FAMILY_BYTES_MAX:
                self.close(family)
                family = Family()
            self.kernels[name] = (len(self.families), family.add(pieces))
            if len(family.raw) > FAMILY_BYTES_MAX:
                raise ValueError(f"kernel '{name}' has more than {FAMILY_BYTES_MAX} bytes")
        if family.raw:
            self.close(family)

    def text(self, about):
        """The index; it counts the families' places from its own end."""
        rows = [("flash-attn", about["flash-attn"]), ("made", about["made"]),
                ("licence", self.licence), ("ptx", *about["ptx"])]
        rows += [("struct", *row) for row in about["structs"]]
        rows += [("member", *row) for row in about["members"]]
        at = 0
        for number, (raw_bytes, packed) in enumerate(self.families):
            packed = packed.result()
            digest = hashlib.sha256(packed).hexdigest()
            rows.append(("family", number, at, len(packed), raw_bytes, digest))
            at += len(packed)
        for name in sorted(self.kernels, key=str.encode):
            family, places = self.kernels[name]
            pieces = " ".join(f"{offset}:{length}" for offset, length in places)
            rows.append(("kernel", name, family, pieces))
        return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()

    def write(self, path, about):
        """Writes the file, which has its name once it is complete.

        about: "flash-attn", "made" (one line each), "ptx" (version, target), "structs"
        [(name, size)], "members" [(name, offset, size)].
        """
        path = pathlib.Path(path)
        index = compress(self.text(about))
        part = path.with_name(path.name + ".part")
        with open(part, "wb") as file:
            file.write(HEAD.pack(MAGIC, len(index), hashlib.sha256(index).digest()))
            file.write(index)
            for _, packed in self.families:
                file.write(packed.result())
        part.replace(path)


NUMBER = r"(\d{1,18})"
PIECE = r"\d{1,18}:\d{1,18}"
#: The lines of an index, by their first word, in their order.
LINES = {
    "flash-attn": r"[\w.+-]+",
    "made": r"[^\t]+",
    "licence": NUMBER,
    "ptx": r"(\d+\.\d+)\t(\d+)",
    "struct": rf"(\w+)\t{NUMBER}",
    "member": rf"(\w+)\t{NUMBER}\t{NUMBER}",
    "family": rf"{NUMBER}\t{NUMBER}\t{NUMBER}\t{NUMBER}\t([0-9a-f]{{64}})",
    "kernel": rf"(\w+(?: \w+)*)\t{NUMBER}\t({PIECE}(?: {PIECE})*)",
}


class Pack:
    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        if len(self.data) < HEAD.size or not self.data.startswith(MAGIC):
            raise Damaged("it does not begin like a pack")
        _, size, digest = HEAD.unpack_from(self.data)
        packed = self.data[HEAD.size:HEAD.size + size]
        if len(packed) != size or hashlib.sha256(packed).digest() != digest:
            raise Damaged("the index is not what was written")
        self.rows = {word: [] for word in LINES}
        self.read_index(decompress(packed, INDEX_BYTES_MAX, "the index"))
        self.families = [tuple(map(int, row[1:4])) + (row[4],) for row in self.rows["family"]]
        self.behind_index = HEAD.size + size
        self.check_families()
        self.kernels = {}
        for name, family, pieces in self.rows["kernel"]:
            self.add_kernel(name, int(family), pieces)
        if int(self.rows["licence"][0][0]) >= len(self.families):
            raise Damaged("the licence is in no family")
        self.decompressed = {}

    def read_index(self, raw):
        order = list(LINES)
        try:
            lines = raw.decode().split("\n")
        except UnicodeDecodeError:
            raise Damaged("the index is not UTF-8") from None
        if lines.pop() != "":
            raise Damaged("the index has no end of line")
        last = 0
        for number, line in enumerate(lines, 1):
            word, _, rest = line.partition("\t")
            found = re.fullmatch(LINES.get(word, "(?!)"), rest, re.ASCII)
            if not found or order.index(word) < last:
                raise Damaged(f"line {number} of the index is not understood")
            last = order.index(word)
            self.rows[word].append(found.groups() or (rest,))
        for word in ("flash-attn", "made", "licence", "ptx"):
            if len(self.rows[word]) != 1:
                raise Damaged(f"the index has {len(self.rows[word])} lines '{word}'")

    def check_families(self):
        at = 0
        for number, (offset, size, raw, _) in enumerate(self.families):
            if int(self.rows["family"][number][0]) != number or offset != at:
                raise Damaged(f"family {number} is not behind the one before it")
            if raw > FAMILY_BYTES_MAX:
                raise Damaged(f"family {number} has more than {FAMILY_BYTES_MAX} bytes")
            at += size
        expected = self.behind_index + at
        if expected != len(self.data):
            raise Damaged(f"the file should have {expected} bytes, but has {len(self.data)}")

    def add_kernel(self, name, family, pieces):
        if self.kernels and next(reversed(self.kernels)) >= name:
            raise Damaged(f"kernel '{name}' is not in order")
        if family >= len(self.families):
            raise Damaged(f"kernel '{name}' is in no family")
        places = [tuple(map(int, piece.split(":"))) for piece in pieces.split(" ")]
        if any(offset + length > self.families[family][2] for offset, length in places):
            raise Damaged(f"kernel '{name}' ends behind its family")
        self.kernels[name] = (family, places)

    def family(self, number):
        """The text of a family; the last one is kept."""
        if number not in self.decompressed:
            offset, size, raw_bytes, digest = self.families[number]
            offset += self.behind_index
            packed = self.data[offset:offset + size]
            if hashlib.sha256(packed).hexdigest() != digest:
                raise Damaged(f"family {number} is not what was written")
            raw = decompress(packed, raw_bytes, f"family {number}")
            if len(raw) != raw_bytes:
                raise Damaged(f"family {number} has {len(raw)} bytes instead of {raw_bytes}")
            self.decompressed = {number: raw}
        return self.decompressed[number]

    def licence(self):
        return self.family(int(self.rows["licence"][0][0])).decode()

    def module(self, name):
        """A complete PTX module with this kernel."""
        family, places = self.kernels[name]
        raw = self.family(family)
        return b"".join(raw[offset:offset + length] for offset, length in places).decode()
