/*
 * update_file.c: the updated catalog as a file of the state folder.
 */
#include "kit/install/update.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/catalog/catalog_stored.h"
#include "kit/system/file.h"

#define FILE_NAME "catalog.afu"

const char *af_update_path(struct af_arena *arena, const char *folder)
{
    return folder == NULL ? NULL : af_path_join(arena, folder, FILE_NAME);
}

static enum anyflash_status fail_system(const char *what, const char *path,
                                        struct anyflash_error *err)
{
    char shown[300];
    int number = errno;
    af_text_quote(shown, sizeof shown, path, strlen(path));
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what, shown, strerror(number));
}

/* The folder and those above it. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = write(fd, bytes + done, len - done);
        if (got < 0 && errno != EINTR)
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return fsync(fd) == 0;
}

/* Whole or not at all: written beside its place, then renamed. */
static enum anyflash_status replace(const char *path, const char *fresh,
                                    const struct af_text *bytes, struct anyflash_error *err)
{
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_system("write", fresh, err);
    bool good = write_all(fd, bytes->data, bytes->len);
    good = close(fd) == 0 && good;
    if (good && rename(fresh, path) == 0)
        return ANYFLASH_OK;
    enum anyflash_status status = fail_system("write", path, err);
    unlink(fresh);
    return status;
}

enum anyflash_status af_update_save(const struct af_update *update, const char *folder,
                                    struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_text bytes = {0};
    af_arena_init(&arena);
    const char *path = af_update_path(&arena, folder);
    char *fresh = af_arena_format(&arena, "%s/" FILE_NAME ".new.%ld",
                                  folder != NULL ? folder : "", (long)getpid());
    enum anyflash_status status;
    if (folder == NULL)
        status = af_fail(err, ANYFLASH_E_NOT_FOUND,
                         "there is no folder to keep the catalog in: HOME is not set");
    else if (arena.failed)
        status = af_fail_memory(err);
    else
        status = af_catalog_stored_write(&update->catalog, &bytes, err);
    if (status == ANYFLASH_OK) {
        make_folders(fresh);
        status = replace(path, fresh, &bytes, err);
    }
    af_text_release(&bytes);
    af_arena_release(&arena);
    return status;
}

enum anyflash_status af_update_undo(const char *folder, bool *there_out,
                                    struct anyflash_error *err)
{
    struct af_arena arena;
    enum anyflash_status status = ANYFLASH_OK;
    af_arena_init(&arena);
    const char *path = af_update_path(&arena, folder);
    *there_out = false;
    if (arena.failed)
        status = af_fail_memory(err);
    else if (path != NULL && unlink(path) == 0)
        *there_out = true;
    else if (path != NULL && errno != ENOENT && errno != ENOTDIR)
        status = fail_system("remove", path, err);
    af_arena_release(&arena);
    return status;
}
