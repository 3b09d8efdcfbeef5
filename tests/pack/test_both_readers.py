"""engine/gpu and pack_file.py read the same kernels of a pack. Of a damaged one each reads what
was written, or refuses it. Damage is drawn at random (ANYFLASH_TEST_SEED)."""
import os
import random
import subprocess

import make_pack
import pack_file
import pytest
from pack_file import Damaged, Pack, Writer

PROGRAM = os.environ.get("ANYFLASH_PRINT_PACK")
SEED = int(os.environ.get("ANYFLASH_TEST_SEED", "0")) or random.randrange(1, 10**6)
DAMAGES = 150

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs the program print_pack: ctest")


@pytest.fixture(scope="module", params=["zstd", "stored"])
def path(request, recorded, twins, tmp_path_factory):
    """A pack, also one that was made where there is no zstd."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "stored":
            patch.setattr(pack_file, "compress", pack_file.stored)
        return write(recorded, twins, tmp_path_factory)


def write(recorded, twins, tmp_path_factory):
    structs, members = make_pack.layout(recorded["members"])
    writer = Writer()
    writer.add_licence("a licence\n")
    for texts in ([recorded["small"]], twins):
        writer.add_kernels(make_pack.kernels_of(texts))
    place = tmp_path_factory.mktemp("pack") / "a.kernels"
    writer.write(place, {"flash-attn": "2.8.3.post2", "made": "by a test", "ptx": ("7.8", "80"),
                         "structs": structs, "members": members})
    return place


def by_python(path):
    """{name: module}, or None: refused."""
    try:
        pack = Pack(path)
        return {name: pack.module(name) for name in pack.kernels}
    except (Damaged, UnicodeDecodeError):
        return None


def by_c(path):
    done = subprocess.run([PROGRAM, path], capture_output=True)
    assert done.returncode in (0, 1), done
    if done.returncode == 1:
        assert done.stderr.strip() and b"\n" not in done.stderr.strip(), done
        return None
    found, rest = {}, done.stdout
    while rest:
        head, _, rest = rest.partition(b"\n")
        name, size = head.decode().split("\t")
        found[name], rest = rest[:int(size)].decode(errors="replace"), rest[int(size):]
    return found


def test_the_program_and_the_library_decompress_the_same(path, monkeypatch):
    by_library = by_python(path)
    monkeypatch.setattr(pack_file, "find_library", lambda: None)
    assert by_library and by_python(path) == by_library
    monkeypatch.setattr(pack_file.shutil, "which", lambda name: None)  # neither is here
    data = path.read_bytes()
    index = data[pack_file.HEAD.size:][:pack_file.HEAD.unpack_from(data)[1]]
    stored = pack_file.stored_content(index) is not None
    assert by_python(path) == (by_library if stored else None)


def test_both_read_the_same_kernels(path):
    kernels = by_python(path)
    assert len(kernels) > 10 and by_c(path) == kernels
    for name, module in kernels.items():
        assert f"// {name}\n" in module and module.count(".entry kernel(") == 1


def test_a_damaged_pack_is_refused_or_read_as_it_was(path, tmp_path):
    rng = random.Random(SEED)
    whole, kernels = path.read_bytes(), by_python(path)
    damaged = tmp_path / "b.kernels"
    for _ in range(DAMAGES):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        damaged.write_bytes(data if rng.random() < 0.7 else data[:rng.randrange(len(data))])
        for found in (by_python(damaged), by_c(damaged)):
            assert found is None or found == kernels, f"seed {SEED}"
