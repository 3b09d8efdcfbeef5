"""A pack gives back what was put into it, is the same bytes each time, and is refused if it is
damaged.
"""

import hashlib
import os
import random
import re
import subprocess

import kernel_names
import make_pack
import pack_file
import ptx
import pytest
from pack_file import Damaged, Pack, Writer

ABOUT = {"flash-attn": "1.2", "made": "by a test", "ptx": ("7.8", "80"),
         "structs": [("forward", 8), ("backward", 16)], "members": [("h", 4, 4), ("h_k", 8, 4)]}


def write(path, *groups):
    writer = Writer()
    writer.add_licence("a licence\n")
    for group in groups:
        writer.add_kernels(group)
    writer.write(path, ABOUT)
    return path


@pytest.fixture(scope="module")
def kernels(recorded, twins):
    """[[(name, pieces)]] of the recorded PTX, in groups."""
    return [make_pack.kernels_of([recorded["small"]]), make_pack.kernels_of(twins)]


@pytest.fixture(scope="module")
def path(kernels, tmp_path_factory):
    return write(tmp_path_factory.mktemp("pack") / "a.kernels", *kernels)


def test_every_module_is_read_back(path, kernels):
    pack = Pack(path)
    wanted = {name: "".join(pieces) for group in kernels for name, pieces in group}
    assert {name: pack.module(name) for name in pack.kernels} == wanted
    assert len(wanted) == 14
    assert pack.licence() == "a licence\n"


def test_names_are_in_the_order_of_their_bytes(path):
    names = list(Pack(path).kernels)
    assert names == sorted(names, key=str.encode)


def test_two_packs_of_the_same_kernels_are_the_same_bytes(path, kernels, tmp_path):
    assert write(tmp_path / "b", *kernels).read_bytes() == path.read_bytes()


def test_the_order_of_the_files_changes_nothing(twins):
    assert make_pack.kernels_of(twins) == make_pack.kernels_of(twins[::-1])


def test_twins_lie_side_by_side(kernels):
    names = [name for name, _ in kernels[1]]
    for bf16, fp16 in zip(names[::2], names[1::2]):
        assert bf16.replace("bf16", "fp16") == fp16


def test_equal_pieces_are_stored_once(path, kernels):
    pack = Pack(path)
    pieces = {piece for _, pieces in kernels[1] for piece in pieces}
    family, _ = pack.kernels[kernels[1][0][0]]
    assert len(pack.family(family)) == sum(map(len, pieces))


def test_the_index_says_what_the_pack_is(path):
    rows = Pack(path).rows
    assert rows["flash-attn"] == [("1.2",)] and rows["made"] == [("by a test",)]
    assert rows["ptx"] == [("7.8", "80")]
    assert rows["struct"] == [("forward", "8"), ("backward", "16")]
    assert rows["member"] == [("h", "4", "4"), ("h_k", "8", "4")]


@pytest.mark.parametrize("seed", range(30))
def test_generated_kernels_are_read_back(seed, tmp_path, monkeypatch):
    """Also where a group needs several families, because a family is small."""
    rng = random.Random(seed)
    monkeypatch.setattr(pack_file, "FAMILY_BYTES_MAX", 1000)
    pieces = ["".join(rng.choices("ab\n", k=rng.randint(1, 200))) for _ in range(20)]
    names = [f"k {i}" for i in range(rng.randint(1, 60))]
    wanted = {name: rng.choices(pieces, k=rng.randint(1, 4)) for name in names}
    half = rng.randint(0, len(names))
    items = list(wanted.items())
    pack = Pack(write(tmp_path / "a", items[:half], items[half:]))
    assert {name: pack.module(name) for name in pack.kernels} == {
        name: "".join(pieces) for name, pieces in wanted.items()}


def test_two_kernels_with_one_name_are_refused():
    writer = Writer()
    writer.add_kernels([("a", ["1"])])
    with pytest.raises(ValueError, match="two kernels are named 'a'"):
        writer.add_kernels([("a", ["1"])])


def test_a_kernel_that_is_larger_than_a_family_is_refused(monkeypatch):
    monkeypatch.setattr(pack_file, "FAMILY_BYTES_MAX", 10)
    with pytest.raises(ValueError, match="kernel 'a' has more than 10 bytes"):
        Writer().add_kernels([("a", ["12345678901"])])


def read_all(path):
    pack = Pack(path)
    pack.licence()
    return [pack.module(name) for name in pack.kernels]


def refused(path, data):
    """What is said of a file with these bytes."""
    path.write_bytes(data)
    with pytest.raises(Damaged) as said:
        read_all(path)
    assert re.fullmatch(r"[a-z].*[^.]", str(said.value))
    return str(said.value)


def test_a_truncated_file_is_refused(path, tmp_path):
    data = path.read_bytes()
    for size in [*range(0, 64), *range(64, len(data), len(data) // 50), len(data) - 1]:
        refused(tmp_path / "a", data[:size])
    refused(tmp_path / "a", data + b"\0")


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_bit_is_noticed(path, tmp_path, seed):
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    at = rng.randrange(60) if seed % 3 == 0 else rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    refused(tmp_path / "a", bytes(data))


def with_index(path, change):
    """The bytes of the pack with another index, whose hash is right."""
    data = path.read_bytes()
    _, size, _ = pack_file.HEAD.unpack_from(data)
    start = pack_file.HEAD.size
    text = pack_file.decompress(data[start:start + size], 1 << 20, "").decode()
    index = change(text)
    packed = pack_file.compress(index if isinstance(index, bytes) else index.encode())
    head = pack_file.HEAD.pack(pack_file.MAGIC, len(packed), hashlib.sha256(packed).digest())
    return head + packed + data[start + size:]


def kernel_line(text):
    return re.search(r"^kernel\taf_fill\t.*\n", text, re.M)[0]


@pytest.mark.parametrize("change, said", [
    (lambda text: "", "the index has 0 lines 'flash-attn'"),
    (lambda text: text[:-1], "the index has no end of line"),
    (lambda text: b"\xff\n", "the index is not UTF-8"),
    (lambda text: "news\t1\n" + text, "line 1 of the index is not understood"),
    (lambda text: text.replace("made\t", "made\tx\t"), "line 2 of the index is not understood"),
    (lambda text: text.replace("forward\t8", "forward\t" + "8" * 5000),
     "line 5 of the index is not understood"),
    (lambda text: text + "made\tx\n", "line [0-9]+ of the index is not understood"),
    (lambda text: text.replace("ptx\t7.8\t80\n", ""), "the index has 0 lines 'ptx'"),
    (lambda text: text.replace("licence\t0", "licence\t99"), "the licence is in no family"),
    (lambda text: re.sub(r"family\t1\t\d+", "family\t1\t9", text), "family . is not behind .*"),
    (lambda text: re.sub(r"(family\t1\t\d+\t\d+)\t\d+", "\\1\t99999999", text),
     "family . (is not behind|has more than) .*"),
    (lambda text: text + kernel_line(text), "kernel 'af_fill' is not in order"),
    (lambda text: re.sub(r"(kernel\taf_fill)\t\d+", "\\1\t99", text),
     "kernel 'af_fill' is in no family"),
    (lambda text: re.sub(r"(kernel\taf_fill\t\d+)\t.*", "\\1\t0:99999999", text),
     "kernel 'af_fill' ends behind its family"),
])
def test_an_index_that_contradicts_itself_is_refused(path, tmp_path, change, said):
    data = with_index(path, change)
    assert re.fullmatch(said, refused(tmp_path / "a", data))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 31, 32, 33, 100, 131072, 131073, 300000])
def test_what_is_stored_is_a_frame_that_zstd_reads(size, tmp_path):
    raw = random.Random(size).randbytes(size)
    packed = pack_file.stored(raw)
    (tmp_path / "frame").write_bytes(packed)
    done = subprocess.run(["zstd", "-d", "-c", tmp_path / "frame"], capture_output=True)
    assert done.returncode == 0 and done.stdout == raw, done.stderr
    assert pack_file.stored_content(packed) == raw
    for at in {0, 5, len(packed) - 1, len(packed) // 2}:  # it is noticed, by a checksum
        bad = packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1:]
        assert pack_file.stored_content(bad) is None


def test_a_family_that_decompresses_to_more_is_refused(path, tmp_path):
    with pytest.raises(Damaged, match="the index has more than 1000 bytes"):
        pack_file.decompress(pack_file.compress(bytes(1 << 20)), 1000, "the index")


def test_modules_of_a_pack_have_one_kernel_each(path):
    pack = Pack(path)
    for name in pack.kernels:
        assert [one for one, _ in ptx.modules(pack.module(name))] == ["kernel"]


def test_sorting_keeps_every_argument():
    names = ["f 1 bf16 2", "f 1 fp16 2", "f 1 bf16 3"]
    assert sorted(names[::-1], key=kernel_names.with_twins) == names
    assert os.path.commonprefix([kernel_names.with_twins(name)[0] for name in names[:2]])
