"""`anyflash attend`: reads files, writes a file, and rejects bad input."""
import array
import json
import math
import random
import struct

import pytest


def write_npy(path, numbers, shape, descr="<f4", version=1):
    """Writes `numbers` as a .npy file; for '<V2' they are truncated to bf16."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    if descr == "<f4":
        data = array.array("f", numbers).tobytes()
    else:
        data = b"".join(struct.pack("<f", number)[2:] for number in numbers)
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + head.encode() + data)
    return str(path)


def read_npy(path):
    """(descr, shape, numbers) of a file that the program wrote."""
    content = path.read_bytes()
    end = 10 + struct.unpack("<H", content[8:10])[0]
    assert content[:8] == b"\x93NUMPY\x01\x00" and end % 64 == 0
    head = eval(content[10:end].decode())  # a literal written by this test
    data = content[end:]
    if head["descr"] == "<f4":
        numbers = list(array.array("f", data))
    else:
        numbers = [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0]
                   for i in range(0, len(data), 2)]
    return head["descr"], head["shape"], numbers


def attention(q, k, v, shape, kv_shape, causal=False, bhsd=False):
    """softmax(q k^T / sqrt(d)) v in double, bottom-right causal; flat lists of o and lse."""
    _, rows, heads, dim = shape if not bhsd else [shape[i] for i in (0, 2, 1, 3)]
    _, keys, kv_heads, _ = kv_shape if not bhsd else [kv_shape[i] for i in (0, 2, 1, 3)]

    def row(data, count, group, s, h):
        at = (h * count + s if bhsd else s * group + h) * dim
        return data[at:at + dim]

    o, lse = [0.0] * len(q), []
    for h in range(heads):
        for s in range(rows):
            shared = h // (heads // kv_heads)
            seen = s + keys - rows + 1 if causal else keys
            mine = row(q, rows, heads, s, h)
            scores = [sum(a * b for a, b in zip(mine, row(k, keys, kv_heads, j, shared)))
                      / math.sqrt(dim) for j in range(seen)]
            weights = [math.exp(score) for score in scores]
            lse.append(math.log(sum(weights)))
            at = (h * rows + s if bhsd else s * heads + h) * dim
            for j, weight in enumerate(weights):
                for d, number in enumerate(row(v, keys, kv_heads, j, shared)):
                    o[at + d] += weight / sum(weights) * number
    return o, lse


def numbers(count, seed):
    """Multiples of 1/16, which are exact in bf16."""
    source = random.Random(seed)
    return [source.randrange(-32, 32) / 16 for _ in range(count)]


@pytest.fixture
def files(tmp_path):
    """Files of q [1, 5, 4, 8], k and v [1, 7, 2, 8], and their numbers."""
    q, k, v = numbers(160, 1), numbers(112, 2), numbers(112, 3)
    names = [write_npy(tmp_path / "q.npy", q, (1, 5, 4, 8)),
             write_npy(tmp_path / "k.npy", k, (1, 7, 2, 8), version=2),
             write_npy(tmp_path / "v.npy", v, (1, 7, 2, 8), version=3)]
    return names, (q, k, v)


def close(found, expected, bound):
    assert len(found) == len(expected)
    worst = max(abs(a - b) for a, b in zip(found, expected))
    assert worst <= bound, worst


@pytest.mark.parametrize("causal", [False, True])
def test_attend_computes_attention_and_lse(anyflash, tmp_path, files, causal):
    names, data = files
    words = ["--causal"] if causal else []
    answer = anyflash("attend", *names, "-o", "o.npy", "--lse", "lse.npy", *words)
    assert answer.code == 0 and answer.err == ""
    assert answer.out.startswith("o.npy: [1, 5, 4, 8] f32, computed in ")
    o, lse = attention(*data, (1, 5, 4, 8), (1, 7, 2, 8), causal)
    descr, shape, found = read_npy(tmp_path / "o.npy")
    assert (descr, shape) == ("<f4", (1, 5, 4, 8))
    close(found, o, 1e-5)
    assert read_npy(tmp_path / "lse.npy")[1] == (1, 4, 5)
    close(read_npy(tmp_path / "lse.npy")[2], lse, 1e-5)


def test_attend_takes_bhsd_and_three_dimensions(anyflash, tmp_path):
    data = numbers(160, 1), numbers(224, 2), numbers(224, 3)
    names = [write_npy(tmp_path / f"{name}.npy", part, (4, len(part) // 32, 8))
             for name, part in zip("qkv", data)]
    answer = anyflash("attend", *names, "-o", "o.npy", "--layout", "bhsd", "-q")
    assert answer.code == 0 and answer.out == ""
    o, _ = attention(*data, (1, 4, 5, 8), (1, 4, 7, 8), bhsd=True)
    assert read_npy(tmp_path / "o.npy")[1] == (4, 5, 8)
    close(read_npy(tmp_path / "o.npy")[2], o, 1e-5)


@pytest.mark.parametrize("descr", ["<V2", "<u2"])
def test_attend_takes_bf16(anyflash, tmp_path, files, descr):
    _, data = files
    names = [write_npy(tmp_path / f"{name}16.npy", part, (1, rows, heads, 8), descr)
             for name, part, rows, heads in zip("qkv", data, (5, 7, 7), (4, 2, 2))]
    refused = anyflash("attend", *names, "-o", "o.npy")
    assert refused.code == 3 and "--dtype bf16" in refused.err
    answer = anyflash("attend", *names, "-o", "o.npy", "--dtype", "bf16")
    assert answer.code == 0
    o, _ = attention(*data, (1, 5, 4, 8), (1, 7, 2, 8))
    assert read_npy(tmp_path / "o.npy")[0] == "<V2"
    close(read_npy(tmp_path / "o.npy")[2], o, 0.02)


def test_attend_gives_the_same_bytes_for_every_number_of_threads(anyflash, tmp_path, files):
    names, _ = files
    for threads in "123":
        assert anyflash("attend", *names, "-o", f"o{threads}", "--threads", threads).code == 0
    assert (tmp_path / "o1").read_bytes() == (tmp_path / "o2").read_bytes()
    assert (tmp_path / "o1").read_bytes() == (tmp_path / "o3").read_bytes()


def test_attend_answers_in_json(anyflash, files):
    answer = anyflash("attend", *files[0], "-o", "o.npy", "--json")
    found = json.loads(answer.out)
    assert found["schema"] == "anyflash-attend/1" and found["lse"] is None
    assert found["o"] == {"file": "o.npy", "dtype": "f32", "shape": [1, 5, 4, 8]}
    assert found["milliseconds"] > 0


def test_attend_options_change_the_result(anyflash, tmp_path, files):
    seen = set()
    for words in ([], ["--causal"], ["--causal", "--align", "top-left"], ["--window", "1,-1"],
                  ["--window", "1,1"], ["--scale", "0.5"], ["--softcap", "0.5"]):
        assert anyflash("attend", *files[0], "-o", "o.npy", *words).code == 0
        seen.add((tmp_path / "o.npy").read_bytes())
    assert len(seen) == 7


@pytest.mark.parametrize("words, error", [
    (["--window", "1"], "--window takes LEFT,RIGHT"),
    (["--window", "1,-2"], "--window takes LEFT,RIGHT"),
    (["--align", "left"], "--align takes top-left or bottom-right"),
    (["--scale", "0"], "--scale takes a number above 0"),
    (["--scale", "nan"], "--scale takes a number above 0"),
    (["--softcap", "1x"], "--softcap takes a number above 0"),
    (["--layout", "sbhd"], "--layout takes bshd or bhsd"),
    (["--dtype", "fp8"], "--dtype takes bf16 or f16"),
    (["--threads", "0"], "--threads takes a number from 1"),
    (["more.npy"], "not 4"),
])
def test_attend_refuses_wrong_words(anyflash, tmp_path, files, words, error):
    answer = anyflash("attend", *files[0], "-o", "o.npy", *words)
    assert answer.code == 2 and answer.out == "" and error in answer.err
    assert not (tmp_path / "o.npy").exists()


def test_attend_needs_an_output(anyflash, files):
    answer = anyflash("attend", *files[0])
    assert answer.code == 2 and "needs an output file" in answer.err


@pytest.mark.parametrize("shape, error", [
    ((7, 2, 8), "q and k differ in the number of dimensions"),
    ((2, 7, 1, 8), "q and k differ in the batch"),
    ((1, 7, 4, 4), "q and k differ in the head size: [1, 5, 4, 8] f32 and [1, 7, 4, 4] f32"),
    ((1, 14, 1, 8), "k and v differ in the heads"),
    ((112,), "k has 1 dimensions"),
])
def test_attend_names_shapes_that_disagree(anyflash, tmp_path, files, shape, error):
    names, data = files
    names[1] = write_npy(tmp_path / "k2.npy", data[1], shape)
    answer = anyflash("attend", *names, "-o", "o.npy")
    assert answer.code == 2 and error in answer.err
    assert not (tmp_path / "o.npy").exists()


def test_attend_refuses_heads_that_do_not_divide(anyflash, tmp_path):
    names = [write_npy(tmp_path / f"{name}.npy", numbers(48 * heads, 1), (1, 4, heads, 12))
             for name, heads in zip("qkv", (3, 2, 2))]
    answer = anyflash("attend", *names, "-o", "o.npy")
    assert answer.code == 2 and "heads" in answer.err


def test_attend_refuses_files_that_are_cut_short(anyflash, tmp_path, files):
    names, _ = files
    whole = (tmp_path / "k.npy").read_bytes()
    for size in (0, 5, 9, 40, len(whole) - 1):
        (tmp_path / "k.npy").write_bytes(whole[:size])
        answer = anyflash("attend", *names, "-o", "o.npy")
        assert answer.code == 3 and "k.npy" in answer.err
        assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("name, error", [
    ("absent.npy", "cannot open 'absent.npy'"),
    (".", "Is a directory"),
    ("/dev/zero", "cannot read '/dev/zero'"),
])
def test_attend_reads_regular_files_only(anyflash, files, name, error):
    answer = anyflash("attend", name, *files[0][1:], "-o", "o.npy")
    assert answer.code == 3 and error in answer.err


def test_attend_leaves_no_file_where_it_cannot_write(anyflash, tmp_path, files):
    (tmp_path / "folder.npy").mkdir()
    answer = anyflash("attend", *files[0], "-o", "folder.npy")
    assert answer.code == 3 and "cannot write 'folder.npy'" in answer.err
    assert [path.name for path in tmp_path.glob("*.part")] == []
    assert anyflash("attend", *files[0], "-o", "no/o.npy").code == 3
