"""The archive of seeds: what is in it, and the script that changes it."""
import lzma
import pathlib
import shutil
import subprocess
import sys

import pytest
import seeds

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def copy(tmp_path):
    """Runs seeds.py in a folder of its own, which has the archive and a target."""
    for name in ("seeds.py", "seeds.tar.xz", "fuzz_zip.c"):
        shutil.copy(HERE / name, tmp_path)

    def run(*words):
        return subprocess.run([sys.executable, tmp_path / "seeds.py", *words], cwd=tmp_path,
                              capture_output=True)
    run.folder = tmp_path
    return run


def test_every_target_has_seeds_and_every_seed_a_target():
    assert {name.split("/")[0] for name in seeds.read()} == {
        path.stem for path in HERE.glob("fuzz_*.c")}


def test_no_seed_is_longer_than_what_a_target_reads():
    assert max(len(data) for data, _ in seeds.read().values()) < 1 << 20


def test_a_seed_is_added_shown_listed_and_removed(copy):
    (copy.folder / "new.bin").write_bytes(b"\0\xff")
    assert copy("add", "fuzz_zip", "new.bin").returncode == 0
    assert copy("show", "fuzz_zip/new.bin").stdout == b"\0\xff"
    assert b"     2 fuzz_zip/new.bin\n" in copy("list", "fuzz_zip").stdout
    assert copy("remove", "fuzz_zip/new.bin").returncode == 0
    assert b"new.bin" not in copy("list").stdout


def test_archive_does_not_depend_on_who_packs_it_and_when(copy):
    (copy.folder / "seeds").mkdir()
    assert copy("unpack", "seeds").returncode == 0
    assert copy("pack", "seeds").returncode == 0
    packed = (copy.folder / "seeds.tar.xz").read_bytes()
    assert lzma.decompress(packed) == lzma.decompress(seeds.ARCHIVE.read_bytes())


@pytest.mark.parametrize("words, error", [
    (["add", "fuzz_none", "seeds.py"], b"error: there is no fuzz target 'fuzz_none'"),
    (["show", "fuzz_zip/none"], b"error: there is no 'fuzz_zip/none'"),
    ([], b"seeds.py list"),
])
def test_wrong_words_are_named_and_change_nothing(copy, words, error):
    done = copy(*words)
    assert done.returncode == 1 and error in done.stderr
    assert (copy.folder / "seeds.tar.xz").read_bytes() == seeds.ARCHIVE.read_bytes()
