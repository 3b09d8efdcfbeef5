/*
 * wheel_archive.c: finds the dist-info folder of a wheel.
 */
#include "kit/formats/wheel_archive.h"

#include <string.h>

#define INFO_END ".dist-info/"

/* Length of "NAME.dist-info/" at the start of a member's name; 0: not in such a folder. */
static size_t info_len(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - name) + 1;
    size_t end_len = sizeof INFO_END - 1;
    return len > end_len && memcmp(slash + 1 - end_len, INFO_END, end_len) == 0 ? len : 0;
}

/* The members of a folder need not be consecutive: only a new name is a new folder. */
static enum anyflash_status find_info(struct af_wheel_archive *archive,
                                      struct anyflash_error *err)
{
    const char *last = "";
    for (size_t i = 0; i < archive->zip.member_count; i++) {
        const char *name = archive->zip.members[i].name;
        size_t len = info_len(name);
        if (len == 0 || strncmp(name, last, len) == 0)
            continue;
        last = name;
        if (archive->info == NULL)
            archive->info = af_arena_text_n(&archive->zip.arena, name, len);
        else if (strncmp(name, archive->info, len) == 0)
            continue;
        if (archive->info == NULL)
            return af_fail_memory(err);
        archive->info_count++;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_wheel_archive_open(struct af_span bytes, const char *name,
                                           struct af_wheel_archive *archive_out,
                                           struct anyflash_error *err)
{
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_zip_open(bytes, name, &archive.zip, err);
    if (status == ANYFLASH_OK)
        status = find_info(&archive, err);
    if (status == ANYFLASH_OK)
        *archive_out = archive;
    else
        af_zip_close(&archive.zip);
    return status;
}

void af_wheel_archive_close(struct af_wheel_archive *archive)
{
    af_zip_close(&archive->zip);
    *archive = (struct af_wheel_archive){.info = NULL};
}

const struct af_zip_member *af_wheel_archive_info(const struct af_wheel_archive *archive,
                                                  const char *file)
{
    size_t len = archive->info == NULL ? 0 : strlen(archive->info);
    for (size_t i = 0; len > 0 && i < archive->zip.member_count; i++) {
        const struct af_zip_member *member = &archive->zip.members[i];
        if (strncmp(member->name, archive->info, len) == 0 &&
            strcmp(member->name + len, file) == 0)
            return member;
    }
    return NULL;
}

enum anyflash_status af_wheel_archive_read_info(const struct af_wheel_archive *archive,
                                                const char *file, struct af_arena *arena,
                                                size_t max_bytes, struct af_span *bytes_out,
                                                struct anyflash_error *err)
{
    const struct af_zip_member *member = af_wheel_archive_info(archive, file);
    if (member == NULL)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has no %s: it is not a wheel",
                       archive->zip.name, file);
    return af_zip_read(&archive->zip, member, arena, max_bytes, bytes_out, err);
}
