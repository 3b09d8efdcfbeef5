/*
 * lock.c: the lock file of an environment, with an open-file-description lock, which also works
 * over NFS and which the kernel releases when the process ends. The holder writes its process,
 * host and command into the file, and removes the file before it unlocks. A process that gets
 * the lock of a removed file tries again.
 */
#include "kit/system/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/progress.h"

#define POLL_NANOSECONDS 100000000L
#define HOLDER_BYTES 400

static enum anyflash_status fail_lock(const char *path, int number, struct anyflash_error *err)
{
    char shown[200];
    const char *why = number == EROFS    ? "the file system is read-only"
                      : number == EACCES ? "no permission to write there"
                                         : strerror(number);
    return af_fail(err, ANYFLASH_E_IO, "cannot use the lock file '%s': %s",
                   af_text_quote(shown, sizeof shown, path, strlen(path)), why);
}

static bool lock_file(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int got;
    do {
        got = fcntl(fd, F_OFD_SETLK, &whole);
    } while (got != 0 && errno == EINTR);
    return got == 0;
}

/* Reads the holder's text, such as "process 123 on node7: install, since ..."; scrubbed. */
static void read_holder(int fd, char *text, size_t size_bytes)
{
    char raw[HOLDER_BYTES];
    ssize_t len = pread(fd, raw, sizeof raw, 0);
    if (len <= 0)
        snprintf(text, size_bytes, "another process");
    else
        af_text_quote(text, size_bytes, raw, (size_t)len);
}

static void write_holder(int fd, const char *command)
{
    char text[HOLDER_BYTES];
    char host[100] = "?";
    char when[32] = "?";
    struct tm parts;
    time_t now = time(NULL);
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    if (localtime_r(&now, &parts) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    int len = snprintf(text, sizeof text, "process %ld on %s (%s, since %s)", (long)getpid(),
                       host, command, when);
    /* This text is only for people: the lock is held without it. */
    if (len > 0 && ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)len, 0) != len)
        (void)ftruncate(fd, 0);
}

/* Whether `fd` is still the file at `path`. */
static bool is_current(int fd, const char *path)
{
    struct stat open_file;
    struct stat named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/*
 * If the file system has no locks, only the holder's text can be checked: whether the process
 * that it names runs on this host.
 */
static bool holder_runs(const char *holder)
{
    char host[100] = "";
    char named[100] = "";
    long pid = 0;
    if (gethostname(host, sizeof host) != 0)
        return true;
    host[sizeof host - 1] = '\0';
    return sscanf(holder, "process %ld on %99s", &pid, named) == 2 &&
           (strcmp(host, named) != 0 || (pid > 0 && kill((pid_t)pid, 0) == 0));
}

/*
 * Tries once. OK with *fd_out >= 0: locked; OK with -1: try again; TIMEOUT: another process
 * holds it.
 */
static enum anyflash_status try_once(struct af_lock *lock, int *fd_out, char *holder,
                                     struct anyflash_error *err)
{
    *fd_out = -1;
    int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd < 0)
        return fail_lock(lock->path, errno, err);
    /* If this process is killed the file stays; the others must be able to lock it then. */
    if (lock->is_shared)
        (void)fchmod(fd, 0666);
    if (!lock_file(fd)) {
        if (errno == EAGAIN || errno == EACCES) {
            read_holder(fd, holder, HOLDER_BYTES);
            close(fd);
            return ANYFLASH_E_TIMEOUT;
        }
        lock->unsupported = true;
        read_holder(fd, holder, HOLDER_BYTES);
        if (holder_runs(holder)) {
            close(fd);
            return ANYFLASH_E_TIMEOUT;
        }
    }
    if (!is_current(fd, lock->path))
        close(fd); /* the holder has just removed it */
    else
        *fd_out = fd;
    return ANYFLASH_OK;
}

enum anyflash_status af_lock_take(struct af_lock *lock, const char *site, const char *command,
                                  enum af_lock_wait wait, const struct af_progress *progress,
                                  struct af_arena *arena, struct anyflash_error *err)
{
    char holder[HOLDER_BYTES] = "";
    bool told = false;
    int fd = -1;
    *lock = (struct af_lock){.path = af_path_join(arena, site, ".anyflash.lock")};
    struct stat facts;
    lock->is_shared = stat(site, &facts) == 0 && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    while (fd < 0) {
        enum anyflash_status status = try_once(lock, &fd, holder, err);
        if (status == ANYFLASH_E_TIMEOUT && wait != AF_LOCK_WAIT)
            return af_fail(err, status, "the environment is in use by %s", holder);
        if (status == ANYFLASH_E_TIMEOUT && !told)
            af_progress_message(progress, "waiting for %s", holder);
        if (status == ANYFLASH_E_TIMEOUT) {
            told = true;
            nanosleep(&(struct timespec){.tv_nsec = POLL_NANOSECONDS}, NULL);
        } else if (status != ANYFLASH_OK) {
            return status;
        }
        if (fd < 0 && af_interrupted())
            return af_fail(err, ANYFLASH_E_TIMEOUT, "interrupted while waiting for %s", holder);
    }
    if (lock->unsupported)
        af_progress_message(
            progress,
            "the file system of '%s' does not support locks: run only one anyflash at a time",
            site);
    write_holder(fd, command);
    lock->fd = fd;
    lock->held = true;
    return ANYFLASH_OK;
}

void af_lock_release(struct af_lock *lock)
{
    if (!lock->held)
        return;
    unlink(lock->path);
    close(lock->fd);
    lock->held = false;
}

bool af_lock_is_held(const char *site, struct af_arena *arena)
{
    char holder[HOLDER_BYTES] = "";
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const char *path = af_path_join(arena, site, ".anyflash.lock");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    read_holder(fd, holder, sizeof holder);
    bool is_held =
        fcntl(fd, F_OFD_GETLK, &whole) == 0 ? whole.l_type != F_UNLCK : holder_runs(holder);
    close(fd);
    return is_held;
}
