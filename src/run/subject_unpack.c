/*
 * subject_unpack.c: the libraries of a wheel as files in a temporary folder, so
 * that they are mapped, not held in memory, and find each other as they will
 * when they are installed. The folder is removed when the subject is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "run/subject_wheel.h"

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

static enum anyflash_status unpack_one(struct af_subject *subject, struct af_arena *arena,
                                       struct af_subject_extension *one,
                                       struct anyflash_error *err)
{
    struct anyflash_error why = {0};
    char *path = af_arena_format(arena, "%s/%s", subject->unpacked, one->member->name);
    if (path == NULL)
        return af_fail_memory(err);
    if (!make_folders(path, strlen(subject->unpacked)))
        return af_fail(err, ANYFLASH_E_IO, "a folder below '%s' cannot be made: %s",
                       subject->unpacked, strerror(errno));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return af_fail(err, ANYFLASH_E_IO, "'%s' cannot be made: %s", path, strerror(errno));
    enum anyflash_status status = af_zip_extract(subject->zip, one->member, fd, NULL, &why);
    close(fd);
    if (status == ANYFLASH_E_DATA)
        one->problem = af_arena_text(arena, why.message);
    else if (status != ANYFLASH_OK)
        return af_fail(err, status, "%s", why.message);
    one->file = path;
    one->folder = af_path_folder(arena, path);
    return ANYFLASH_OK;
}

enum anyflash_status af_subject_unpack(struct af_subject *subject, struct af_arena *arena,
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
    subject->unpacked = folder;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < subject->count; i++)
        status = unpack_one(subject, arena, &subject->extensions[i], err);
    return status;
}

/* Removes the files, then each folder on their way, deepest first. */
static void remove_unpacked(struct af_subject *subject)
{
    size_t root_len = strlen(subject->unpacked);
    for (size_t i = 0; i < subject->count; i++) {
        const char *file = subject->extensions[i].file;
        char folder[4200];
        if (file == NULL || strlen(file) >= sizeof folder ||
            strncmp(file, subject->unpacked, root_len) != 0)
            continue;
        unlink(file);
        memcpy(folder, file, strlen(file) + 1);
        for (char *slash = strrchr(folder, '/'); slash != NULL && slash > folder + root_len;
             slash = strrchr(folder, '/')) {
            *slash = '\0';
            rmdir(folder); /* fails while it has more in it */
        }
    }
    rmdir(subject->unpacked);
}

void af_subject_close(struct af_subject *subject)
{
    if (subject->unpacked != NULL)
        remove_unpacked(subject);
    if (subject->zip != NULL)
        af_zip_close(subject->zip);
    if (subject->source != NULL)
        af_source_close(subject->source);
    *subject = (struct af_subject){0};
}
