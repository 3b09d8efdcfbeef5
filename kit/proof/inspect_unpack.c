/*
 * inspect_unpack.c: the libraries of a wheel as files in a temporary folder, so
 * that they are mapped, not held in memory, and find each other as they will
 * when they are installed. The folder is removed when the subject is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/proof/inspect_wheel.h"
#include "kit/system/file.h"

/* All folders on the way to `path` below `root`; zip.h vouches for the name. */
static bool make_folders(char *path, size_t root_len)
{
    for (char *at = path + root_len + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!made)
            return false;
    }
    return true;
}

static enum anyflash_status write_all(void *context, const void *bytes, size_t len,
                                      struct anyflash_error *err)
{
    const int *fd = context;
    for (size_t done = 0; done < len;) {
        ssize_t got = write(*fd, (const char *)bytes + done, len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot write an unpacked library: %s",
                           strerror(errno));
        done += (size_t)got;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status unpack_one(struct af_inspect_target *target, struct af_arena *arena,
                                       struct af_inspect_extension *one,
                                       struct anyflash_error *err)
{
    struct anyflash_error why = {0};
    char *path = af_arena_format(arena, "%s/%s", target->unpacked, one->member->name);
    if (path == NULL)
        return af_fail_memory(err);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return af_fail(err, ANYFLASH_E_IO, "'%s' cannot be made: %s", path, strerror(errno));
    char hex[AF_SHA256_HEX_BYTES];
    enum anyflash_status status =
        af_zip_extract(&target->archive->zip, one->member, write_all, &fd, hex, &why);
    close(fd);
    one->file = path;
    if (status == ANYFLASH_E_DATA)
        one->problem = af_arena_text(arena, why.message);
    else if (status != ANYFLASH_OK)
        return af_fail(err, status, "%s", why.message);
    else
        one->sha256 = af_arena_text(arena, hex);
    return ANYFLASH_OK;
}

/* Whether one of the libraries asks for a file of that name. */
static bool is_needed(const struct af_inspect_target *target, const char *name)
{
    for (size_t i = 0; i < target->count; i++) {
        const struct af_texts *needed = &target->extensions[i].facts.binary.needed;
        for (size_t n = 0; n < needed->count; n++) {
            if (strcmp(needed->items[n], name) == 0)
                return true;
        }
    }
    return false;
}

/* The temporary folder, and in it those of all libraries: paths may lead through them. */
static enum anyflash_status make_place(struct af_inspect_target *target, struct af_arena *arena,
                                       struct anyflash_error *err)
{
    const char *place = getenv("TMPDIR");
    char *folder = af_arena_format(arena, "%s/anyflash-inspect-XXXXXX",
                                   place != NULL && place[0] == '/' ? place : "/tmp");
    if (folder == NULL)
        return af_fail_memory(err);
    if (mkdtemp(folder) == NULL)
        return af_fail(err, ANYFLASH_E_IO, "no temporary folder '%s': %s", folder,
                       strerror(errno));
    target->unpacked = folder;
    for (size_t i = 0; i < target->count; i++) {
        struct af_inspect_extension *one = &target->extensions[i];
        char *path = af_arena_format(arena, "%s/%s", folder, one->member->name);
        one->folder = af_path_folder(arena, path);
        if (arena->failed)
            return af_fail_memory(err);
        if (!make_folders(path, strlen(folder)))
            return af_fail(err, ANYFLASH_E_IO, "a folder below '%s' cannot be made: %s", folder,
                           strerror(errno));
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_inspect_target_unpack(struct af_inspect_target *target,
                                              bool only_needed, struct af_arena *arena,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (target->has_unpacked_all || (only_needed && target->has_unpacked_needed))
        return ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < target->count; i++) {
        struct af_inspect_extension *one = &target->extensions[i];
        if (one->file != NULL ||
            (only_needed && !is_needed(target, af_path_name(one->member->name))))
            continue;
        if (target->unpacked == NULL)
            status = make_place(target, arena, err);
        if (status == ANYFLASH_OK)
            status = unpack_one(target, arena, one, err);
    }
    target->has_unpacked_needed = status == ANYFLASH_OK;
    target->has_unpacked_all = status == ANYFLASH_OK && !only_needed;
    return status;
}

/* Removes the files, then the folders on their way, deepest first. */
static void remove_unpacked(struct af_inspect_target *target)
{
    size_t root_len = strlen(target->unpacked);
    for (size_t i = 0; i < target->count; i++) {
        const struct af_inspect_extension *one = &target->extensions[i];
        char folder[4200];
        if (one->file != NULL)
            unlink(one->file);
        if (one->folder == NULL || strlen(one->folder) >= sizeof folder)
            continue;
        memcpy(folder, one->folder, strlen(one->folder) + 1);
        while (strlen(folder) > root_len) {
            rmdir(folder); /* fails while it has more in it */
            *strrchr(folder, '/') = '\0';
        }
    }
    rmdir(target->unpacked);
}

void af_inspect_target_close(struct af_inspect_target *target)
{
    if (target->unpacked != NULL)
        remove_unpacked(target);
    if (target->archive != NULL)
        af_wheel_archive_close(target->archive);
    if (target->source != NULL)
        af_source_close(target->source);
    *target = (struct af_inspect_target){0};
}
