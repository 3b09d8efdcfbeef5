/*
 * build_lock.c: who works with what is kept. The lock of a folder is a file beside it,
 * FOLDER.lock, as the folder itself is removed and made anew; the kernel takes it
 * back when its process ends, however it ends.
 */
#include "kit/build/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/interrupt.h"

#define POLL_NANOSECONDS 100000000L

/* Whether the file is still there: who removes a folder removes its lock file, too. */
static bool is_current(int fd, const char *path)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* False: another one holds it, or the file was just removed. */
static bool try_once(int fd, const char *path, int operation)
{
    return flock(fd, operation | LOCK_NB) == 0 && is_current(fd, path);
}

enum anyflash_status af_build_lock(struct af_build *build, const char *folder,
                                   enum af_build_lock_mode hold, int *fd,
                                   struct anyflash_error *err)
{
    const struct timespec pause = {.tv_nsec = POLL_NANOSECONDS};
    const char *path = af_arena_format(build->arena, "%s.lock", folder);
    int operation = hold == AF_BUILD_ALONE ? LOCK_EX : LOCK_SH;
    if (path == NULL)
        return af_fail_memory(err);
    for (bool told = false;; told = true) {
        if (*fd < 0)
            *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (*fd < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot write '%s': %s", path, strerror(errno));
        if (try_once(*fd, path, operation))
            return ANYFLASH_OK;
        if (!is_current(*fd, path)) {
            close(*fd);
            *fd = -1;
            continue;
        }
        if (!told)
            af_progress_message(&build->progress,
                                "waiting for another build, which works with '%s'", folder);
        if (af_interrupted())
            return af_fail(err, ANYFLASH_E_TIMEOUT,
                           "interrupted while waiting for another build, which works with '%s'",
                           folder);
        nanosleep(&pause, NULL);
    }
}

bool af_build_try_lock(const char *path, int *fd_out)
{
    *fd_out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return *fd_out < 0 || try_once(*fd_out, path, LOCK_EX);
}
