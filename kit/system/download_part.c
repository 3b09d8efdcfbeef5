/*
 * download_part.c: NAME.part and NAME.part.json. Called by download.c.
 */
#include "kit/system/download_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/file.h"

#define IDENTITY_BYTES_MAX 65536u
#define DISK_SPARE_BYTES (1u << 20) /* that a disk should have left */

static enum anyflash_status fail_system(const struct af_part *part, const char *what,
                                        struct anyflash_error *err)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return af_fail(err, ANYFLASH_E_IO, "the disk is full: cannot %s '%s'", what,
                       part->shown);
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what, part->shown,
                   strerror(errno));
}

static void copy_text(char *to, size_t size_bytes, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text != NULL && strlen(text) < size_bytes)
        memcpy(to, text, strlen(text) + 1);
}

/* What was written down, when it is of the same address. */
static bool read_identity(struct af_part *part, const char *url_sha256)
{
    struct af_span bytes;
    struct af_arena text;
    json_t *json = NULL;
    af_arena_init(&text);
    if (af_file_read(&text, part->identity_path, IDENTITY_BYTES_MAX, &bytes, NULL) ==
        ANYFLASH_OK)
        af_json_parse(bytes, IDENTITY_BYTES_MAX, "part", &json, NULL);
    af_arena_release(&text);
    struct af_part_identity read = {.total_bytes = -1};
    copy_text(read.url_sha256, sizeof read.url_sha256, json_object_get(json, "url_sha256"));
    copy_text(read.etag, sizeof read.etag, json_object_get(json, "etag"));
    copy_text(read.last_modified, sizeof read.last_modified,
              json_object_get(json, "last_modified"));
    json_t *total = json_object_get(json, "total_bytes");
    if (json_is_integer(total))
        read.total_bytes = json_integer_value(total);
    json_decref(json);
    if (!af_sha256_equal(read.url_sha256, url_sha256) || read.total_bytes < 0)
        return false;
    part->identity = read;
    return true;
}

static enum anyflash_status open_file(struct af_part *part, struct anyflash_error *err)
{
    struct stat about;
    part->fd =
        open(part->part_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (part->fd < 0)
        return fail_system(part, "write", err);
    if (fstat(part->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return af_fail(err, ANYFLASH_E_IO, "'%s.part' is no regular file", part->shown);
    if (flock(part->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? af_fail(err, ANYFLASH_E_IO, "'%s' is being downloaded by another process",
                             part->shown)
                   : fail_system(part, "lock", err);
    return ANYFLASH_OK;
}

/* Whether the locked file still is NAME.part: another download may have finished it. */
static bool is_current(const struct af_part *part)
{
    struct stat opened, named;
    return fstat(part->fd, &opened) == 0 && lstat(part->part_path, &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void af_part_close(struct af_part *part)
{
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
    af_arena_release(&part->arena);
}

enum anyflash_status af_part_open(const char *path, const char *url, struct af_part *part_out,
                                  struct anyflash_error *err)
{
    struct af_part part = {.fd = -1, .identity = {.total_bytes = -1}};
    char url_sha256[AF_SHA256_HEX_BYTES];
    af_arena_init(&part.arena);
    af_text_quote(part.shown, sizeof part.shown, path, strlen(path));
    part.path = af_arena_text(&part.arena, path);
    part.part_path = af_arena_format(&part.arena, "%s.part", path);
    part.identity_path = af_arena_format(&part.arena, "%s.part.json", path);
    af_sha256_bytes((struct af_span){url, strlen(url)}, url_sha256);
    enum anyflash_status status =
        part.arena.failed ? af_fail_memory(err) : open_file(&part, err);
    if (status == ANYFLASH_OK && !is_current(&part)) {
        close(part.fd);
        status = open_file(&part, err);
    }
    if (status != ANYFLASH_OK) {
        af_part_close(&part);
        return status;
    }
    part.is_same = read_identity(&part, url_sha256);
    memcpy(part.identity.url_sha256, url_sha256, sizeof url_sha256);
    off_t len = lseek(part.fd, 0, SEEK_END);
    part.len = len > 0 ? (uint64_t)len : 0;
    if (!part.is_same && part.len > 0)
        status = af_part_empty(&part, err);
    if (status == ANYFLASH_OK)
        *part_out = part;
    else
        af_part_close(&part);
    return status;
}

enum anyflash_status af_part_empty(struct af_part *part, struct anyflash_error *err)
{
    if (ftruncate(part->fd, 0) != 0 || lseek(part->fd, 0, SEEK_SET) != 0)
        return fail_system(part, "empty", err);
    part->len = 0;
    part->is_same = false;
    part->identity.etag[0] = '\0';
    part->identity.last_modified[0] = '\0';
    part->identity.total_bytes = -1;
    return ANYFLASH_OK;
}

void af_part_remember(struct af_part *part)
{
    const struct af_part_identity *identity = &part->identity;
    const char *fresh = af_arena_format(&part->arena, "%s.new", part->identity_path);
    json_t *json = json_pack("{s:s, s:s, s:s, s:I}", "url_sha256", identity->url_sha256, "etag",
                             identity->etag, "last_modified", identity->last_modified,
                             "total_bytes", (json_int_t)identity->total_bytes);
    if (fresh != NULL && json != NULL && json_dump_file(json, fresh, JSON_INDENT(1)) == 0)
        part->is_same = rename(fresh, part->identity_path) == 0;
    json_decref(json);
}

enum anyflash_status af_part_add(struct af_part *part, const void *bytes, size_t len,
                                 struct anyflash_error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = write(part->fd, (const char *)bytes + done, len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_system(part, "write", err);
        done += (size_t)got;
        part->len += (uint64_t)got;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_part_check_disk_space(const struct af_part *part, uint64_t more_bytes,
                                              struct anyflash_error *err)
{
    struct statvfs disk;
    if (fstatvfs(part->fd, &disk) != 0)
        return ANYFLASH_OK; /* writing will tell */
    uint64_t free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
    if (disk.f_blocks == 0 || free_bytes > more_bytes + DISK_SPARE_BYTES)
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_IO,
                   "the disk is full: '%s' needs %llu MB more, and %llu MB are free",
                   part->shown, (unsigned long long)(more_bytes / 1000000 + 1),
                   (unsigned long long)(free_bytes / 1000000));
}

void af_part_remove(struct af_part *part)
{
    unlink(part->part_path);
    unlink(part->identity_path);
}

/* The new name must survive a power cut, too. */
static void sync_folder(struct af_part *part)
{
    const char *folder = af_path_folder(&part->arena, part->path);
    int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

enum anyflash_status af_part_finish(struct af_part *part, struct anyflash_error *err)
{
    if (fsync(part->fd) != 0 || rename(part->part_path, part->path) != 0)
        return fail_system(part, "finish", err);
    unlink(part->identity_path);
    sync_folder(part);
    return ANYFLASH_OK;
}
