/*
 * download.c: downloads a file: retries, goes on, checks, renames. The first half of this file
 * handles the unfinished file ("part"), the second half the requests ("transfer").
 */
#include "kit/system/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/http.h"
#include "kit/system/process.h"

#define TRIES_MAX 5 /* in a row without a new byte */
#define ATTEMPTS_MAX 1000
#define START_BYTES 512u
#define PROGRESS_MS 100
#define DISK_SPARE_BYTES (1u << 20) /* free space that must be left on the disk */

/* Which file of the server the downloaded bytes belong to. */
struct part_identity {
    char etag[AF_HTTP_HEADER_BYTES];
    char last_modified[AF_HTTP_HEADER_BYTES];
    int64_t total_bytes; /* -1: not known */
};

/* An open part, locked so that no other download writes to the same path. */
struct part {
    int fd;
    uint64_t len;
    bool is_same; /* a change of the server's file would be noticed: it may be resumed */
    struct part_identity identity;
    const char *path;      /* of the finished file */
    const char *part_path; /* NAME.part */
    char shown[300];       /* of the finished file, for errors */
    struct af_arena arena;
};

static enum anyflash_status fail_system(const struct part *part, const char *what,
                                        struct anyflash_error *err)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return af_fail(err, ANYFLASH_E_IO, "the disk is full: cannot %s '%s'", what,
                       part->shown);
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what, part->shown,
                   strerror(errno));
}

static enum anyflash_status open_file(struct part *part, struct anyflash_error *err)
{
    struct stat about;
    part->fd =
        open(part->part_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (part->fd < 0)
        return fail_system(part, "write", err);
    if (fstat(part->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return af_fail(err, ANYFLASH_E_IO, "'%s.part' is not a regular file", part->shown);
    if (about.st_uid != geteuid() || about.st_nlink > 1)
        return af_fail(
            err, ANYFLASH_E_IO,
            "'%s.part' belongs to another user or has a second name: remove it first",
            part->shown);
    if (flock(part->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? af_fail(err, ANYFLASH_E_IO, "'%s' is being downloaded by another process",
                             part->shown)
                   : fail_system(part, "lock", err);
    return ANYFLASH_OK;
}

/* Whether the locked file is still NAME.part: another download may have renamed it. */
static bool is_current(const struct part *part)
{
    struct stat opened, named;
    return fstat(part->fd, &opened) == 0 && lstat(part->part_path, &named) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

static void part_close(struct part *part)
{
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
    af_arena_release(&part->arena);
}

static enum anyflash_status part_empty(struct part *part, struct anyflash_error *err)
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

static enum anyflash_status part_open(const char *path, struct part *part_out,
                                      struct anyflash_error *err)
{
    struct part part = {.fd = -1};
    af_arena_init(&part.arena);
    af_text_quote(part.shown, sizeof part.shown, path, strlen(path));
    part.path = af_arena_text(&part.arena, path);
    part.part_path = af_arena_format(&part.arena, "%s.part", path);
    enum anyflash_status status = open_file(&part, err);
    if (status == ANYFLASH_OK && !is_current(&part)) {
        close(part.fd);
        status = open_file(&part, err);
    }
    if (status == ANYFLASH_OK)
        status = part_empty(&part, err);
    if (status == ANYFLASH_OK)
        *part_out = part;
    else
        part_close(&part);
    return status;
}

static enum anyflash_status part_add(struct part *part, const void *bytes, size_t len,
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

static enum anyflash_status part_check_disk_space(const struct part *part, uint64_t more_bytes,
                                                  struct anyflash_error *err)
{
    struct statvfs disk;
    if (fstatvfs(part->fd, &disk) != 0)
        return ANYFLASH_OK; /* if the disk is full, writing fails */
    uint64_t free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
    if (disk.f_blocks == 0 || free_bytes > more_bytes + DISK_SPARE_BYTES)
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_IO,
                   "not enough disk space: '%s' needs %llu MB more, but only %llu MB are free",
                   part->shown, (unsigned long long)(more_bytes / 1000000 + 1),
                   (unsigned long long)(free_bytes / 1000000));
}

/* The rename must survive a power cut, too. */
static void sync_folder(struct part *part)
{
    const char *folder = af_path_folder(&part->arena, part->path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static enum anyflash_status part_finish(struct part *part, struct anyflash_error *err)
{
    if (fsync(part->fd) != 0 || rename(part->part_path, part->path) != 0)
        return fail_system(part, "finish", err);
    sync_folder(part);
    return ANYFLASH_OK;
}

struct transfer {
    const struct af_download *download;
    struct part *part;
    struct af_download_result *result;
    uint64_t max_bytes;
    int64_t progress_ms; /* time of the last progress report */
    bool restart;        /* the server has another file: start again */
    char shown[AF_URL_SHOWN_BYTES];
};

const char *af_download_not_a_wheel(struct af_span start)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/";
    struct af_span text = af_text_trim(start);
    if (text.len >= sizeof lfs - 1 && memcmp(text.data, lfs, sizeof lfs - 1) == 0)
        return "a Git LFS pointer, not the file that it points to";
    if ((text.len >= 9 && strncasecmp(text.data, "<!doctype", 9) == 0) ||
        (text.len >= 5 && strncasecmp(text.data, "<html", 5) == 0))
        return "a web page (HTML)";
    if (text.len >= 5 && strncasecmp(text.data, "<?xml", 5) == 0)
        return "an XML document";
    if (text.len >= 1 && (text.data[0] == '{' || text.data[0] == '['))
        return "a JSON document";
    return NULL;
}

static enum anyflash_status tell(struct transfer *transfer, bool always,
                                 struct anyflash_error *err)
{
    const struct af_download *download = transfer->download;
    int64_t now = af_clock_ms();
    if (download->progress == NULL || (!always && now - transfer->progress_ms < PROGRESS_MS))
        return ANYFLASH_OK;
    transfer->progress_ms = now;
    if (download->progress(download->context, transfer->part->len,
                           transfer->part->identity.total_bytes))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_IO, "'%s': interrupted", transfer->shown);
}

/* Whether a 206 continues the part with bytes of the same file. */
static bool goes_on(const struct part *part, const struct af_http_answer *answer)
{
    const struct part_identity *identity = &part->identity;
    return answer->range_total == identity->total_bytes &&
           strcmp(answer->etag, identity->etag) == 0 &&
           strcmp(answer->last_modified, identity->last_modified) == 0;
}

static enum anyflash_status check_size(const struct transfer *transfer, int64_t total,
                                       struct anyflash_error *err)
{
    int64_t expected = transfer->download->size_bytes;
    if (total >= 0 && expected >= 0 && total != expected)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has %lld bytes; %lld were expected",
                       transfer->shown, (long long)total, (long long)expected);
    if (total >= 0 && (uint64_t)total > transfer->max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has %lld bytes; at most %llu are accepted",
                       transfer->shown, (long long)total,
                       (unsigned long long)transfer->max_bytes);
    return ANYFLASH_OK;
}

static enum anyflash_status take_head(void *context, const struct af_http_answer *answer,
                                      struct anyflash_error *err)
{
    struct transfer *transfer = context;
    struct part *part = transfer->part;
    if (answer->status == 206) {
        transfer->restart = !goes_on(part, answer);
        return transfer->restart
                   ? af_fail(err, ANYFLASH_E_DATA, "'%s' has changed on the server",
                             transfer->shown)
                   : part_check_disk_space(
                         part, (uint64_t)part->identity.total_bytes - part->len, err);
    }
    enum anyflash_status status = part_empty(part, err);
    if (status == ANYFLASH_OK)
        status = check_size(transfer, answer->length_bytes, err);
    if (status == ANYFLASH_OK && answer->length_bytes > 0)
        status = part_check_disk_space(part, (uint64_t)answer->length_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    part->identity.total_bytes = answer->length_bytes;
    memcpy(part->identity.etag, answer->etag, sizeof part->identity.etag);
    memcpy(part->identity.last_modified, answer->last_modified,
           sizeof part->identity.last_modified);
    part->is_same = answer->length_bytes >= 0 &&
                    (af_http_etag_is_strong(answer->etag) || answer->last_modified[0] != '\0');
    return ANYFLASH_OK;
}

static enum anyflash_status refuse_start(const struct transfer *transfer, struct af_span start,
                                         struct anyflash_error *err)
{
    const char *what = af_download_not_a_wheel(start);
    if (what != NULL)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is %s", transfer->shown, what);
    if (start.len >= 4 && memcmp(start.data, "PK\3\4", 4) != 0)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is not a wheel: it does not start as a zip "
                       "archive",
                       transfer->shown);
    return ANYFLASH_OK;
}

static enum anyflash_status take_body(void *context, const void *bytes, size_t len,
                                      struct anyflash_error *err)
{
    struct transfer *transfer = context;
    struct part *part = transfer->part;
    enum anyflash_status status = ANYFLASH_OK;
    /* If the first piece is too short to recognise, the file is checked at the end. */
    if (transfer->download->wheel && part->len == 0 && len >= 16)
        status = refuse_start(transfer, (struct af_span){bytes, len}, err);
    if (status == ANYFLASH_OK && len > transfer->max_bytes - part->len)
        status = af_fail(err, ANYFLASH_E_LIMIT, "'%s' has more than %llu bytes",
                         transfer->shown, (unsigned long long)transfer->max_bytes);
    if (status == ANYFLASH_OK && part->identity.total_bytes < 0)
        status = part_check_disk_space(part, len, err);
    if (status == ANYFLASH_OK)
        status = part_add(part, bytes, len, err);
    if (status == ANYFLASH_OK)
        transfer->result->received_bytes += len;
    return status == ANYFLASH_OK ? tell(transfer, false, err) : status;
}

static bool is_whole(const struct transfer *transfer)
{
    return transfer->part->identity.total_bytes >= 0 &&
           transfer->part->len == (uint64_t)transfer->part->identity.total_bytes;
}

/* Sends one request for the missing bytes. */
static enum anyflash_status try_once(const struct af_http *http, struct transfer *transfer,
                                     struct af_http_answer *answer, struct anyflash_error *err)
{
    const struct part *part = transfer->part;
    const struct part_identity *identity = &part->identity;
    bool resume = part->len > 0 && part->is_same;
    char validator[AF_HTTP_HEADER_BYTES];
    snprintf(validator, sizeof validator, "%s",
             af_http_etag_is_strong(identity->etag) ? identity->etag : identity->last_modified);
    struct af_http_request request = {.url = transfer->download->url,
                                      .first = resume ? (int64_t)part->len : 0,
                                      .if_range = validator,
                                      .max_bytes = transfer->max_bytes,
                                      .head = take_head,
                                      .body = take_body,
                                      .context = transfer};
    transfer->restart = false;
    transfer->result->attempts++;
    return af_http_get(http, &request, answer, err);
}

/*
 * Sends requests until the file is complete or retrying is useless. A part that grows may be
 * resumed any number of times; a restart counts as a try.
 */
static enum anyflash_status get_all(const struct af_http *http, struct transfer *transfer,
                                    struct anyflash_error *err)
{
    struct part *part = transfer->part;
    struct af_http_answer answer;
    for (int tries = 1; !is_whole(transfer); tries++) {
        uint64_t before = part->len;
        enum anyflash_status status = try_once(http, transfer, &answer, err);
        if (status == ANYFLASH_OK)
            break;
        bool other_file = transfer->restart || answer.status == 416;
        if (tries >= TRIES_MAX || transfer->result->attempts >= ATTEMPTS_MAX ||
            !(other_file || answer.may_pass))
            return status;
        if (other_file)
            part->is_same = false;
        else if (part->is_same && part->len > before)
            tries = 0;
        else
            af_http_wait(tries);
    }
    return tell(transfer, true, err);
}

/* Checks the file on the disk: its hash, and whether it starts as a wheel. */
static enum anyflash_status check_content(struct transfer *transfer, struct anyflash_error *err)
{
    const struct af_download *download = transfer->download;
    struct part *part = transfer->part;
    char start[START_BYTES];
    ssize_t len = pread(part->fd, start, sizeof start, 0);
    enum anyflash_status status = check_size(transfer, (int64_t)part->len, err);
    if (status == ANYFLASH_OK && download->wheel)
        status = len >= 4 ? refuse_start(transfer, (struct af_span){start, (size_t)len}, err)
                          : af_fail(err, ANYFLASH_E_DATA,
                                    "'%s' has only %zd bytes and cannot be a wheel",
                                    transfer->shown, len);
    if (status != ANYFLASH_OK)
        return status;
    lseek(part->fd, 0, SEEK_SET);
    status = af_file_sha256_fd(part->fd, part->path, transfer->result->sha256,
                               &transfer->result->size_bytes, err);
    if (status == ANYFLASH_OK && download->sha256 != NULL &&
        !af_sha256_equal(download->sha256, transfer->result->sha256))
        status = af_fail(err, ANYFLASH_E_DATA, "'%s' has the wrong SHA-256: %s, expected %s",
                         transfer->shown, transfer->result->sha256, download->sha256);
    return status;
}

/* Whether the finished file already exists with the expected hash. */
static bool is_there(const struct af_download *download, struct af_download_result *result)
{
    return download->sha256 != NULL && af_file_is_regular(download->path) &&
           af_file_sha256(download->path, result->sha256, &result->size_bytes, NULL) ==
               ANYFLASH_OK &&
           af_sha256_equal(download->sha256, result->sha256);
}

enum anyflash_status af_download_run(const struct af_http *http,
                                     const struct af_download *download,
                                     struct af_download_result *result_out,
                                     struct anyflash_error *err)
{
    struct af_download_result result = {.attempts = 0};
    struct part part;
    struct transfer transfer = {.download = download,
                                .part = &part,
                                .result = &result,
                                .max_bytes = download->max_bytes != 0 ? download->max_bytes
                                                                      : AF_DOWNLOAD_BYTES_MAX};
    af_url_show(transfer.shown, sizeof transfer.shown, download->url);
    if (is_there(download, &result)) {
        *result_out = result;
        return ANYFLASH_OK;
    }
    if (download->sha256 != NULL && !af_sha256_is_hex(download->sha256))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "the expected sha256 does not have 64 hexadecimal "
                       "digits");
    enum anyflash_status status = part_open(download->path, &part, err);
    if (status != ANYFLASH_OK)
        return status;
    status = get_all(http, &transfer, err);
    if (status == ANYFLASH_OK)
        status = check_content(&transfer, err);
    if (status == ANYFLASH_OK)
        status = part_finish(&part, err);
    if (status != ANYFLASH_OK)
        unlink(part.part_path);
    part_close(&part);
    if (status == ANYFLASH_OK)
        *result_out = result;
    return status;
}
