"""Fills the disk at each step of a build: the message says how much is needed, finished objects
are kept, and a later build with enough space compiles only the rest."""

import zipfile

import pytest

import synthetic
from bad_world import SELECTION, World
from full_disk import Disk, needs_small_disk

pytestmark = needs_small_disk
ALL = 6 + len(synthetic.GLUE)  # files of the selection, and ours
LARGE = "8g"  # size of a tmpfs, which uses only what is written
OBJECT = 300_000

# Really writes its temporary file and its object, until the disk is full.
COMPILER = synthetic.READ_WORDS + """[ -n "$object" ] || { CHECK; exit 0; }
[ -e "$COMPILED.room" ] || case $source in WHERE) HOW ;; esac
set -e
head -c SIZE /dev/zero >"$TMPDIR/part.$$"
head -c SIZE /dev/zero >"$object"
rm "$TMPDIR/part.$$"
basename "$source" >>"$COMPILED"
"""


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def compilers(world, where="none", how=":", check=":"):
    """Runs the shell text `how` for the files `where`; `check`: in a test of the compiler."""
    text = COMPILER
    for name, value in (("WHERE", where), ("HOW", how), ("CHECK", check), ("SIZE", OBJECT)):
        text = text.replace(name, str(value))
    for path in (world.cuda / "bin" / "nvcc", world.folder / "bin" / "c++"):
        synthetic.write(path, text, 0o755)


def is_full(said, code, *texts):
    """The message names the disk, the space needed and the space free."""
    assert said.code == code, said
    told = " ".join((said.out + said.err).split())
    for text in ("no space left on the disk of '", "about ", " more needed, ", " free. ",
                 "What was built is kept: free some space", *texts):
        assert text in told, said
    assert "/cache/build/" in told, said
    return said


def goes_on(world, disk, first, **keywords):
    """With enough space again, the rest is compiled and the wheel is complete."""
    disk.grow(LARGE)
    world.folder.joinpath("compiled.room").touch()
    again = world.run(before=disk.before, **keywords)
    assert again.code == 0, again
    assert not set(first.compiled) & set(again.compiled), (first, again)
    assert len(first.compiled) + len(again.compiled) == ALL, (first, again)
    wheel, = disk.inside.glob("build/*/wheels/*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert opened.testzip() is None
        assert opened.read("flash_attn_2_cuda/libanyflash_cuda.so")
    left = [*disk.inside.glob("build/*/temporary"), *disk.inside.glob("build/**/*.new")]
    assert not left, left


@pytest.mark.parametrize("free", [0, OBJECT + 4096, 2 * OBJECT - 4096])
def test_full_while_compilers_write(world, free):
    with Disk(world.folder / "cache", LARGE) as disk:
        # Another compiler's temporary file would become free space later.
        alone = "sleep 1; while ls $TMPDIR/part.* >&2; do sleep 0.05; done"
        compilers(world, "*bwd*128_bf16_sm80*", f"{alone}; {disk.filling(free)}")
        said = is_full(world.run(before=disk.before), 1, "No space left on device")
        assert 0 < len(said.compiled) < ALL
        full = world.run(before=disk.before)
        assert full.code == 3 and "not enough free disk" in full.err and not full.compiled, full
        goes_on(world, disk, said)


def test_a_compiler_that_does_not_say_so_and_takes_its_files_away(world):
    with Disk(world.folder / "cache", LARGE) as disk:
        compilers(world, "*bwd*128_bf16_sm80*",
                  f"sleep 1; {disk.filling(0)}; sleep 2.5; {disk.resizing('2g')}; "
                  "echo 'nvFatbin error: empty input' >&2; exit 1")
        said = world.run(before=disk.before)
        told = " ".join(said.out.split())
        assert said.code == 1 and "a disk was full, although '" in told, said
        assert "(nvFatbin error: empty input)" in told, said
        goes_on(world, disk, said)


def test_full_while_all_write_at_once_keeps_what_was_finished(world):
    with Disk(world.folder / "cache", LARGE) as disk:
        fill = disk.filling(6 * OBJECT)
        compilers(world, "*", f"mkdir $COMPILED.first && sleep 0.3 && {fill}; sleep 1")
        goes_on(world, disk, is_full(world.run(before=disk.before), 1))


@pytest.mark.parametrize("step, what", [("LINK", "linking failed"),
                                        ("PACK", "cannot write 'wheels/")])
def test_full_when_the_wheel_is_made(world, step, what):
    with Disk(world.folder / "cache", LARGE) as disk:
        compilers(world)
        said = world.run(before=disk.before, more={f"BEFORE_{step}": disk.filling(65536)})
        is_full(said, 3, what, "No space left on device")
        assert len(said.compiled) == ALL and not list(disk.inside.glob("build/*/wheels/*"))
        goes_on(world, disk, said)


@pytest.mark.parametrize("free", [0, 8192, 40960, 409600])
def test_full_before_the_first_compiler(world, free):
    """Folder, lock, scripts or sources: whatever is written first."""
    with Disk(world.folder / "cache", LARGE) as disk:
        compilers(world, check=f"[ -e \"$COMPILED.room\" ] || {disk.filling(free)}")
        said = world.run(before=disk.before)
        assert said.code in (1, 3) and not said.compiled, said
        is_full(said, said.code, "No space left on device")
        goes_on(world, disk, said)


def test_a_full_temporary_folder_of_the_user_is_not_used(world):
    with Disk(world.folder / "tmp", "16k") as disk:
        disk.fill()
        compilers(world)
        said = world.run(before=disk.before, more={"TMPDIR": str(disk.place)})
        assert said.code == 0 and len(said.compiled) == ALL, said


def test_a_full_disk_of_the_output_leaves_the_wheel_in_the_cache(world):
    with Disk(world.folder / "out", "64k") as disk:
        compilers(world)
        said = world.run(*SELECTION, "--output", str(disk.place), before=disk.before)
        assert said.code == 3 and "No space left on device" in said.err, said
        wheel, = world.folder.glob("cache/build/*/wheels/*.whl")
        assert f"the wheel was built: {wheel}" in said.err, said
        assert not list(disk.inside.iterdir())
