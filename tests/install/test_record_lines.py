"""Lines of a RECORD that name files which are not the wheel's: pip copies RECORD as it is."""
import zipfile

from conftest import make_wheel, visible


def with_record_line(wheel, line):
    """Adds a line to RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content + line if name.endswith("/RECORD") else content)
    return wheel


def test_a_line_for_a_file_that_is_not_there_moves_nothing(place, tmp_path):
    (place.site / "unowned").mkdir()
    (place.site / "unowned/mine.py").write_text("mine")
    wheel = with_record_line(make_wheel(tmp_path, name="foo", requires=()),
                             b"unowned/nothing.pyc,,\n")
    before = visible(place.tree())
    done = place.run("install", wheel)
    assert (place.site / "unowned/mine.py").is_file(), done.all
    assert done.returncode != 0 or before.items() <= visible(place.tree()).items()


def test_a_line_above_the_environment_stops(place, tmp_path):
    victim = place.root / "victim"
    victim.mkdir()
    (victim / "x.pyc").write_text("theirs")
    wheel = with_record_line(make_wheel(tmp_path, name="foo", requires=()),
                             b"../../../../victim/x.pyc,,\n")
    done = place.run("install", wheel)
    assert (victim / "x.pyc").is_file(), done.all
    assert done.returncode == 1 and "RECORD" in done.stdout, done.all
    assert not (place.site / "victim").exists()
