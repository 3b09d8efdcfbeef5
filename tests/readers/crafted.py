"""Zip archives in which any field may lie, by a seed: crafted(seed) -> bytes.

Half of them lie in at most one place, the others in several: members with headers of their own
that differ from the directory, descriptors of every form, bytes between members, hidden members
and directories, zip64 records of any size, several end records, comments, extra fields, and
changed bytes.
"""
import random
import struct
import zlib

LOCAL = "<4sHHHHHIIIHH"
ENTRY = "<4sHHHHHHIIIHHHHHII"
END64 = "<4sQHHIIQQQQ"
LOCATOR = "<4sIQI"
END = "<4sHHHHIIH"
NAMES = ["flash_attn/__init__.py", "flash_attn/one.py", "a-1.dist-info/METADATA", "x/", "é.py"]
HIDDEN = ["evil.pth", "flash_attn/__init__.py", "a-1.dist-info/entry_points.txt"]
ALL32 = 0xFFFFFFFF


def deflated(content):
    pack = zlib.compressobj(6, zlib.DEFLATED, -15)
    return pack.compress(content) + pack.flush()


class Crafter:
    def __init__(self, seed, members=None):
        """`members`: names and contents; otherwise some of its own."""
        self.draw = random.Random(seed)
        self.members = members
        self.lies = 0 if self.draw.random() < 0.15 else 1 if self.draw.random() < 0.5 else 4
        self.out = bytearray()

    def lie(self, chance=0.05):
        """Whether to lie here."""
        if self.lies == 0 or self.draw.random() >= chance:
            return False
        self.lies -= 1
        return True

    def near(self, number, most=ALL32):
        """Another number than `number`."""
        return self.draw.choice([0, 1, number + 1, max(0, number - 1), number * 2, most,
                                 self.draw.randrange(most + 1)]) & most

    def extra(self, place, own):
        draw = self.draw
        fields = b""
        if draw.random() < 0.1:  # of a time, which nobody reads
            fields += struct.pack("<HHI", 0x5455, 4, 7)
        if self.lie():
            sizes = struct.pack("<QQ", self.near(own[0]), self.near(own[1]))
            fields += struct.pack("<HH", 1, len(sizes)) + sizes
        if self.lie(0.03):
            body = b"\1" + struct.pack("<I", zlib.crc32(own[2].encode())) + b"evil.pth"
            fields += struct.pack("<HH", 0x7075, len(body)) + body
        if self.lie(0.03):
            fields += bytes(draw.randrange(256) for _ in range(draw.randrange(1, 7)))
        return fields

    def descriptor(self, crc, packed, size):
        form = self.draw.randrange(4)
        mark = b"PK\7\x08" if form % 2 else b""
        numbers = [crc, packed, size]
        if self.lie(0.2):
            numbers[self.draw.randrange(3)] = self.near(size)
        return mark + struct.pack("<IQQ" if form > 1 else "<III", *numbers)

    def member(self, name, content):
        """Writes a member; returns its entry of the directory."""
        draw = self.draw
        method = draw.choice([0, 8, 8]) if content else 0
        body = deflated(content) if method == 8 else content
        if self.lie(0.03):
            body += bytes(draw.randrange(1, 40))
        crc, packed, size, at = zlib.crc32(content), len(body), len(content), len(self.out)
        follows = draw.random() < 0.25 and bool(content)
        raw = name.encode()
        flags = (0 if name.isascii() else 0x800) | (8 if follows else 0)
        said = [0, 0, 0] if follows and draw.random() < 0.8 else [crc, packed, size]
        own = {"flags": flags, "method": method, "name": raw, "said": said}
        if self.lie():
            own[draw.choice(["flags", "method"])] ^= draw.choice([8, 0x800, 1])
        if self.lie(0.03):
            own["name"] = draw.choice(HIDDEN).encode()
        if self.lie():
            said[draw.randrange(3)] = self.near(size)
        fields = self.extra(at, (size, packed, name))
        self.out += struct.pack(LOCAL, b"PK\3\4", 20, own["flags"], own["method"], 0, 0x21,
                                *said, len(own["name"]), len(fields)) + own["name"] + fields
        self.out += body
        if follows != self.lie(0.03):
            self.out += self.descriptor(crc, packed, size)
        if self.lie(0.03):  # a member that no directory names, or nothing
            gap = bytes(draw.randrange(1, 30))
            self.out += self.hidden_member() if draw.random() < 0.5 else gap
        numbers = [crc, packed, size]
        if self.lie(0.03):
            numbers[draw.randrange(3)] = self.near(size)
        if self.lie(0.03):
            at = self.near(at)
        fields = self.extra(at, (size, packed, name))
        if self.lie(0.03):
            flags ^= draw.choice([1, 8, 0x800])
        mode = 0o40755 if name.endswith("/") else 0o100644
        return struct.pack(ENTRY, b"PK\1\2", 0x031E, 20, flags, method, 0, 0x21, *numbers,
                           len(raw), len(fields), 0, 0, 0, mode << 16, at) + raw + fields

    def hidden_member(self):
        content = b"import os\n"
        name = self.draw.choice(HIDDEN).encode()
        return struct.pack(LOCAL, b"PK\3\4", 20, 0, 0, 0, 0x21, zlib.crc32(content),
                           len(content), len(content), len(name), 0) + name + content

    def hidden_archive(self, at):
        """Members, directory and zip64 record of an archive that would begin at `at`."""
        content = b"import os\n"
        name = self.draw.choice(HIDDEN).encode()
        entry = struct.pack(ENTRY, b"PK\1\2", 0x031E, 20, 0, 0, 0, 0x21, zlib.crc32(content),
                            len(content), len(content), len(name), 0, 0, 0, 0,
                            0o100644 << 16, at) + name
        members = struct.pack(LOCAL, b"PK\3\4", 20, 0, 0, 0, 0x21, zlib.crc32(content),
                              len(content), len(content), len(name), 0) + name + content
        return members + entry, at + len(members), len(entry)

    def end64(self, count, directory_at, directory_len):
        record_at = len(self.out)
        more = b""
        if self.lie(0.5):  # data behind the record; another record at its end
            if self.draw.random() < 0.7:
                more, other_at, other_len = self.hidden_archive(record_at + 56)
                more += struct.pack(END64, b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, other_len,
                                    other_at)
            else:
                more = bytes(self.draw.randrange(1, 80))
        length = self.near(44) if self.lie(0.05) else 44 + len(more)
        numbers = [count, count, directory_len, directory_at]
        if self.lie(0.05):
            numbers[self.draw.randrange(4)] = self.near(directory_len)
        self.out += struct.pack(END64, b"PK\6\6", length, 45, 45, 0, 0, *numbers) + more
        if self.lie(0.05):
            record_at = self.near(record_at)
        self.out += struct.pack(LOCATOR, b"PK\6\7", 0, record_at, 1)

    def archive(self):
        draw = self.draw
        if self.lie(0.03):
            self.out += b"#!/bin/sh\n"
        names = draw.sample(NAMES, draw.randrange(1, len(NAMES) + 1))
        members = self.members or [(name, b"" if name.endswith("/") else bytes(
            draw.randrange(97, 101) for _ in range(draw.randrange(60)))) for name in names]
        if self.lie(0.03):
            name = draw.choice(members)[0]
            members = [*members, (name.swapcase() if draw.random() < 0.5 else name, b"again")]
        directory = b"".join(self.member(name, content) for name, content in members)
        if self.lie(0.03):
            self.out += self.hidden_archive(len(self.out))[0]
        directory_at, length, count = len(self.out), len(directory), len(members)
        self.out += directory
        if self.lie(0.03):
            self.out += bytes(draw.randrange(1, 60))
        is_64 = draw.random() < 0.35
        if is_64:
            self.end64(count, directory_at, length)
        numbers = [count, count, length, directory_at]
        if is_64 and draw.random() < 0.7:
            numbers = [0xFFFF, 0xFFFF, ALL32, ALL32]
        if self.lie(0.05):
            at = draw.randrange(4)
            numbers[at] = self.near(numbers[at], 0xFFFF if at < 2 else ALL32)
        comment = bytes(draw.randrange(97, 101) for _ in range(draw.randrange(30) // 10 * 9))
        if self.lie(0.05):
            comment += struct.pack(END, b"PK\5\6", 0, 0, 1, 1, length, directory_at, 0)
        self.out += struct.pack(END, b"PK\5\6", 0, 0, *numbers, len(comment)) + comment
        if self.lie(0.03):
            self.out += bytes(draw.randrange(1, 30))
        for _ in range(draw.randrange(1, 4) if self.lie(0.15) else 0):
            self.out[draw.randrange(len(self.out))] ^= 1 << draw.randrange(8)
        return bytes(self.out)


def crafted(seed, members=None):
    return Crafter(seed, members).archive()
