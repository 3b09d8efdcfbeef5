"""A file system on which folders cannot be flushed to disk."""
from conftest import compiled, make_wheel

FAILS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
static int flush(int fd, const char *name)
{
    struct stat facts;
    if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}
int fsync(int fd) { return flush(fd, "fsync"); }
int fdatasync(int fd) { return flush(fd, "fdatasync"); }
"""


def test_install_and_undo_leave_the_journal_and_the_files_in_agreement(quick_place, tmp_path):
    place = quick_place
    compiled(tmp_path / "fails", FAILS)
    preload = {"LD_PRELOAD": str(tmp_path / "fails/one.so"),
               "ASAN_OPTIONS": "verify_asan_link_order=0"}  # the sanitizer comes second
    first = make_wheel(tmp_path, name="first", requires=())
    assert place.run("install", first).returncode == 0  # creates the state file
    before = place.tree()
    wheel = make_wheel(tmp_path, name="one", requires=())
    done = place.run("install", wheel, env=preload)
    assert done.returncode == 0 and (place.site / "one").is_dir(), done.all
    done = place.run("undo", env=preload)
    assert done.returncode == 0 and place.tree() == before, done.all
