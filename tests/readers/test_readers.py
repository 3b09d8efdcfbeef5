"""What anyflash reads from an archive is what an installer reads, or anyflash refuses it: uv
and the zipfile of every Python of this machine, over archives that lie (crafted.py), and over
honest ones.

ANYFLASH_TEST_SEED: begin with this seed; ANYFLASH_TEST_CASES: so many archives (3000).
ANYFLASH_TEST_PYTHONS: more interpreters, separated by blanks."""
import glob
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from crafted import crafted  # noqa: E402

PRINT_ZIP = os.environ["ANYFLASH_PRINT_ZIP"]
COUNT = int(os.environ.get("ANYFLASH_TEST_CASES", 3000))


def pythons():
    found = {}
    named = os.environ.get("ANYFLASH_TEST_PYTHONS", "").split()
    for minor in range(6, 20):
        named.append(shutil.which(f"python3.{minor}"))
        named += glob.glob(f"{os.path.expanduser('~')}/.pyenv/versions/3.{minor}.*/bin/python")
    for path in ["/usr/bin/python3", *filter(None, named)]:
        asked = subprocess.run([path, "-c", "import sys, zlib; print(sys.version.split()[0])"],
                               capture_output=True, text=True)
        if asked.returncode == 0:
            found.setdefault(asked.stdout.strip(), path)
    return found


PYTHONS = pythons()
UV = shutil.which("uv")


def joined(archives):
    return b"".join(struct.pack("<Q", len(one)) + one for one in archives)


def run_over(command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True,
                          timeout=300).stdout


def read_by(command, archives):
    return [json.loads(line) for line in run_over(command, joined(archives)).splitlines()]


def differ(ours, theirs):
    """Whether an installer that reads `theirs` could write what anyflash has not seen."""
    if ours is None or theirs is None:
        return False
    return ours.keys() != theirs.keys() or any(
        crc is not None and crc != ours[name] for name, crc in theirs.items())


@pytest.fixture(scope="module")
def seeds():
    first = int(os.environ.get("ANYFLASH_TEST_SEED", int(time.time()) % 10**6 * 10**4))
    return range(first, first + COUNT)


@pytest.fixture(scope="module")
def archives(seeds):
    return [crafted(seed) for seed in seeds]


@pytest.fixture(scope="module")
def ours(archives):
    return read_by([PRINT_ZIP], archives)


@pytest.mark.parametrize("version", PYTHONS)
def test_python_reads_what_anyflash_reads(version, seeds, archives, ours):
    theirs = read_by([PYTHONS[version], HERE / "read_zip.py"], archives)
    wrong = [seed for seed, one, other in zip(seeds, ours, theirs) if differ(one, other)]
    assert not wrong, f"seeds of archives: {wrong[:10]}"


def test_honest_archives_are_read_and_others_are_refused():
    read = read_by([PRINT_ZIP], [crafted(seed) for seed in range(300)])  # the same each time
    assert 60 < sum(one is not None for one in read) < 240


def test_an_archive_written_again_has_the_same_members(archives, ours):
    again = run_over([PRINT_ZIP, "again"], joined(archives))
    wanted = [one for one in ours if one is not None]
    for command in [PRINT_ZIP], *([path, HERE / "read_zip.py"] for path in PYTHONS.values()):
        read = [json.loads(line) for line in run_over(command, again).splitlines()]
        assert read == wanted, command


WHEEL = {
    "flash_attn/__init__.py": b"__version__ = '2.8.3'\n",
    "flash_attn/one.py": b"one = 1\n",
    "flash_attn-2.8.3.dist-info/METADATA": b"Metadata-Version: 2.1\nName: flash_attn\n"
                                           b"Version: 2.8.3\n",
    "flash_attn-2.8.3.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\n"
                                        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
}
RECORD = "flash_attn-2.8.3.dist-info/RECORD"
OF_INSTALLERS = {".lock", *(f"flash_attn-2.8.3.dist-info/{name}" for name in (
    "RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"))}


def installed_by_uv(archive, folder):
    """The CRC-32 of each file that uv installs from a wheel; None: it refuses the wheel."""
    folder.mkdir()
    wheel = folder / "flash_attn-2.8.3-py3-none-any.whl"
    wheel.write_bytes(archive)
    done = subprocess.run([UV, "pip", "install", "-q", "--no-deps", "--no-index", "--no-cache",
                           "--target", folder / "site", wheel], capture_output=True)
    files = [path for path in (folder / "site").rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder / "site")): path for path in files}
    return None if done.returncode != 0 else {
        name: zlib.crc32(path.read_bytes()) for name, path in names.items()
        if name not in OF_INSTALLERS}


@pytest.mark.skipif(UV is None, reason="needs uv")
def test_uv_installs_what_anyflash_reads(seeds, tmp_path):
    record = "".join(f"{name},,\n" for name in [*WHEEL, RECORD]).encode()
    members = [*WHEEL.items(), (RECORD, record)]
    archives = {seed: crafted(seed, members) for seed in seeds[:COUNT // 10]}
    for seed, ours in zip(archives, read_by([PRINT_ZIP], archives.values())):
        theirs = installed_by_uv(archives[seed], tmp_path / str(seed)) if ours else None
        ours = {name: crc for name, crc in (ours or {}).items() if name not in OF_INSTALLERS}
        assert theirs is None or theirs == ours, f"seed {seed}"


def with_zipfile(draw):
    """An archive as Python writes it, perhaps to a pipe."""
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = io.BytesIO()

        def writable(self):
            return True

        def write(self, data):
            return self.data.write(data)

    target = Pipe() if draw.random() < 0.5 else io.BytesIO()
    with zipfile.ZipFile(target, "w", draw.choice([zipfile.ZIP_STORED,
                                                   zipfile.ZIP_DEFLATED])) as archive:
        for n in range(draw.randrange(1, 5)):
            name = f"folder{n}/" if draw.random() < 0.2 else f"part{n}/{draw.random()}.py"
            if name.endswith("/"):
                archive.writestr(name, "")
                continue
            with archive.open(name, "w", force_zip64=draw.random() < 0.3) as member:
                member.write(os.urandom(draw.randrange(200)))
        archive.comment = b"made by hand" if draw.random() < 0.2 else b""
    return (target.data if isinstance(target, Pipe) else target).getvalue()


def test_what_python_writes_is_read():
    draw = random.Random(1)
    archives = [with_zipfile(draw) for _ in range(100)]
    ours = read_by([PRINT_ZIP], archives)
    theirs = read_by([sys.executable, HERE / "read_zip.py"], archives)
    assert ours == theirs
