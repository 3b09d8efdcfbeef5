/*
 * output.c: writes a file under a temporary name and renames it; creates folders with their
 * parents and removes them.
 */
#include "kit/system/output.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"

#define WALK_FDS 32

enum anyflash_status af_file_fail(const char *what, const char *path,
                                  struct anyflash_error *err)
{
    char shown[300];
    int number = errno;
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what,
                   af_text_quote(shown, sizeof shown, path, strlen(path)), strerror(number));
}

/* Writes all bytes; returns 0 or errno. */
static int write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t got = write(fd, at, len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        at += got;
        len -= (size_t)got;
    }
    return 0;
}

/* A name that no file has, for one that will be renamed to `path`. */
static const char *part_name(struct af_arena *arena, const char *path)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
        struct timespec now = {0};
        clock_gettime(CLOCK_REALTIME, &now);
        number = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40;
    }
    return af_arena_format(arena, "%s.%016jx.part", path, (uintmax_t)number);
}

/* `mode`: of the new file, which nobody else may read before it has it; NULL: the usual one. */
static enum anyflash_status write_pieces(struct af_arena *arena, const char *path,
                                         const struct af_span *pieces, size_t count,
                                         const mode_t *mode, struct anyflash_error *err)
{
    const char *part = part_name(arena, path);
    int number = 0;
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode == NULL ? 0666 : 0600);
    if (fd < 0)
        return af_file_fail("write", path, err);
    for (size_t i = 0; i < count && number == 0; i++)
        number = write_all(fd, pieces[i].data, pieces[i].len);
    if (number == 0 && mode != NULL && fchmod(fd, *mode) != 0)
        number = errno;
    if (number == 0 && fsync(fd) != 0 && errno != EINVAL)
        number = errno;
    if (close(fd) != 0 && number == 0)
        number = errno;
    if (number == 0 && rename(part, path) != 0)
        number = errno;
    if (number != 0)
        unlink(part);
    errno = number;
    return number == 0 ? ANYFLASH_OK : af_file_fail("write", path, err);
}

enum anyflash_status af_file_write(struct af_arena *arena, const char *path,
                                   const struct af_span *pieces, size_t count,
                                   struct anyflash_error *err)
{
    return write_pieces(arena, path, pieces, count, NULL, err);
}

enum anyflash_status af_file_rewrite(struct af_arena *arena, const char *path,
                                     const struct af_span *piece, struct anyflash_error *err)
{
    struct stat had;
    bool exists = stat(path, &had) == 0;
    mode_t mode = exists ? had.st_mode & 07777 : 0;
    return write_pieces(arena, path, piece, 1, exists ? &mode : NULL, err);
}

static enum anyflash_status copy_file(struct af_arena *arena, const char *from, const char *to,
                                      struct anyflash_error *err)
{
    struct af_mapping mapping;
    enum anyflash_status status = af_file_map(from, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span piece = {(const char *)mapping.data, mapping.len};
    status = af_file_write(arena, to, &piece, 1, err);
    af_file_unmap(&mapping);
    return status;
}

enum anyflash_status af_file_link_or_copy(struct af_arena *arena, const char *from,
                                          const char *to, struct anyflash_error *err)
{
    const char *folder = af_path_folder(arena, to);
    const char *part = part_name(arena, to);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return af_file_fail("make", folder, err);
    const char *real_from = af_file_real_path(arena, from);
    const char *real_to = af_file_real_path(arena, to);
    if (real_to != NULL && af_equal(real_from, real_to))
        return ANYFLASH_OK;
    if (real_from != NULL && link(real_from, part) == 0) {
        if (rename(part, to) == 0) {
            unlink(part); /* rename() does nothing if both names are links to the same file */
            return ANYFLASH_OK;
        }
        unlink(part);
    }
    return copy_file(arena, from, to, err);
}

enum anyflash_status af_file_write_text(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err)
{
    const struct af_span piece = {text, strlen(text)};
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    enum anyflash_status status = af_file_write(arena, path, &piece, 1, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum anyflash_status af_folder_make(const char *path, unsigned mode, struct anyflash_error *err)
{
    char part[4096];
    size_t len = strlen(path);
    if (len >= sizeof part)
        return af_fail(err, ANYFLASH_E_LIMIT, "the path of a folder to create is too long");
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, path[i] == '/' ? 0755 : (mode_t)mode) != 0 && errno != EEXIST) {
            int number = errno;
            bool exists = af_file_exists(part);
            errno = number;
            if (!exists)
                return af_file_fail("create the folder", part, err);
        }
        part[i] = path[i];
    }
    return ANYFLASH_OK;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path) != 0 && errno != ENOENT;
}

enum anyflash_status af_folder_remove(const char *path, struct anyflash_error *err)
{
    if (nftw(path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 ||
        errno == ENOENT)
        return ANYFLASH_OK;
    return af_file_fail("remove", path, err);
}
