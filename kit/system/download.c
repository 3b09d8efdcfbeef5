/*
 * download.c: gets a file whole: resumes, tries again, checks, renames. The
 * unfinished file is in download_part.c.
 */
#include "kit/system/download.h"
#include "kit/system/hash_file.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/download_part.h"
#include "kit/system/file.h"
#include "kit/system/http_parts.h"

#define TRIES_MAX 5 /* in a row without a new byte */
#define ATTEMPTS_MAX 1000
#define START_BYTES 512u
#define PROGRESS_MS 100

struct transfer {
    const struct af_download *download;
    struct af_part *part;
    struct af_download_result *result;
    uint64_t max_bytes;
    int64_t progress_ms; /* when it was told last */
    bool restart;        /* the server has another file: once more, from the start */
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

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum anyflash_status tell(struct transfer *transfer, bool always,
                                 struct anyflash_error *err)
{
    const struct af_download *download = transfer->download;
    int64_t now = now_ms();
    if (download->progress == NULL || (!always && now - transfer->progress_ms < PROGRESS_MS))
        return ANYFLASH_OK;
    transfer->progress_ms = now;
    if (download->progress(download->context, transfer->part->len,
                           transfer->part->identity.total_bytes))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_IO, "'%s': interrupted", transfer->shown);
}

/* Whether a 206 goes on where the part ends, in the same file. */
static bool goes_on(const struct af_part *part, const struct af_http_answer *answer)
{
    const struct af_part_identity *identity = &part->identity;
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
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has %lld bytes; at most %llu are taken",
                       transfer->shown, (long long)total,
                       (unsigned long long)transfer->max_bytes);
    return ANYFLASH_OK;
}

static enum anyflash_status take_head(void *context, const struct af_http_answer *answer,
                                      struct anyflash_error *err)
{
    struct transfer *transfer = context;
    struct af_part *part = transfer->part;
    if (answer->status == 206) {
        transfer->restart = !goes_on(part, answer);
        return transfer->restart
                   ? af_fail(err, ANYFLASH_E_DATA, "'%s' has changed", transfer->shown)
                   : af_part_check_disk_space(
                         part, (uint64_t)part->identity.total_bytes - part->len, err);
    }
    enum anyflash_status status = af_part_empty(part, err);
    if (status == ANYFLASH_OK)
        status = check_size(transfer, answer->length_bytes, err);
    if (status == ANYFLASH_OK && answer->length_bytes > 0)
        status = af_part_check_disk_space(part, (uint64_t)answer->length_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    transfer->result->resumed_bytes = 0;
    part->identity.total_bytes = answer->length_bytes;
    memcpy(part->identity.etag, answer->etag, sizeof part->identity.etag);
    memcpy(part->identity.last_modified, answer->last_modified,
           sizeof part->identity.last_modified);
    /* Without one of them nothing tells later whether the file is still the same. */
    if (answer->length_bytes >= 0 &&
        (af_http_etag_is_strong(answer->etag) || answer->last_modified[0] != '\0'))
        af_part_remember(part);
    return ANYFLASH_OK;
}

static enum anyflash_status refuse_start(const struct transfer *transfer, struct af_span start,
                                         struct anyflash_error *err)
{
    const char *what = af_download_not_a_wheel(start);
    if (what != NULL)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' gives %s", transfer->shown, what);
    if (start.len >= 4 && memcmp(start.data, "PK\3\4", 4) != 0)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' gives no wheel: it does not start as a zip "
                       "archive",
                       transfer->shown);
    return ANYFLASH_OK;
}

static enum anyflash_status take_body(void *context, const void *bytes, size_t len,
                                      struct anyflash_error *err)
{
    struct transfer *transfer = context;
    struct af_part *part = transfer->part;
    enum anyflash_status status = ANYFLASH_OK;
    /* A first piece that is too short to judge is judged at the end. */
    if (transfer->download->wheel && part->len == 0 && len >= 16)
        status = refuse_start(transfer, (struct af_span){bytes, len}, err);
    if (status == ANYFLASH_OK && len > transfer->max_bytes - part->len)
        status = af_fail(err, ANYFLASH_E_LIMIT, "'%s' has more than %llu bytes",
                         transfer->shown, (unsigned long long)transfer->max_bytes);
    if (status == ANYFLASH_OK)
        status = af_part_add(part, bytes, len, err);
    if (status == ANYFLASH_OK)
        transfer->result->received_bytes += len;
    return status == ANYFLASH_OK ? tell(transfer, false, err) : status;
}

static bool is_whole(const struct transfer *transfer)
{
    return transfer->part->identity.total_bytes >= 0 &&
           transfer->part->len == (uint64_t)transfer->part->identity.total_bytes;
}

/* One request for what is missing. */
static enum anyflash_status try_once(struct af_http *http, struct transfer *transfer,
                                     struct af_http_answer *answer, struct anyflash_error *err)
{
    const struct af_part *part = transfer->part;
    const struct af_part_identity *identity = &part->identity;
    bool resume = part->len > 0 && part->is_same;
    char validator[AF_HTTP_HEADER_BYTES];
    snprintf(validator, sizeof validator, "%s",
             af_http_etag_is_strong(identity->etag) ? identity->etag : identity->last_modified);
    struct af_http_request request = {.url = transfer->download->url,
                                      .first = resume ? (int64_t)part->len : -1,
                                      .last = -1,
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
 * Requests until the file is whole or nothing helps. A part that grows may be
 * continued again and again; what must begin anew counts as a try.
 */
static enum anyflash_status get_all(struct af_http *http, struct transfer *transfer,
                                    struct anyflash_error *err)
{
    struct af_part *part = transfer->part;
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

/* What lies on the disk now: does it start as a wheel, has it the hash? */
static enum anyflash_status check_content(struct transfer *transfer, struct anyflash_error *err)
{
    const struct af_download *download = transfer->download;
    struct af_part *part = transfer->part;
    char start[START_BYTES];
    ssize_t len = pread(part->fd, start, sizeof start, 0);
    enum anyflash_status status = check_size(transfer, (int64_t)part->len, err);
    if (status == ANYFLASH_OK && download->wheel)
        status = len >= 4 ? refuse_start(transfer, (struct af_span){start, (size_t)len}, err)
                          : af_fail(err, ANYFLASH_E_DATA, "'%s' gives %zd bytes, no wheel",
                                    transfer->shown, len);
    if (status != ANYFLASH_OK)
        return status;
    lseek(part->fd, 0, SEEK_SET);
    status = af_file_sha256_fd(part->fd, part->path, transfer->result->sha256,
                               &transfer->result->size_bytes, err);
    if (status == ANYFLASH_OK && download->sha256 != NULL &&
        !af_sha256_equal(download->sha256, transfer->result->sha256))
        status = af_fail(err, ANYFLASH_E_DATA,
                         "'%s' is not the file that was expected: its sha256 is %s, not %s",
                         transfer->shown, transfer->result->sha256, download->sha256);
    return status;
}

static enum anyflash_status download_part(struct af_http *http, struct transfer *transfer,
                                          struct anyflash_error *err)
{
    struct af_part *part = transfer->part;
    transfer->result->resumed_bytes = part->len;
    enum anyflash_status status = get_all(http, transfer, err);
    if (status != ANYFLASH_OK) {
        if (status == ANYFLASH_E_DATA || part->len == 0)
            af_part_remove(part); /* nothing to go on from */
        return status;
    }
    status = check_content(transfer, err);
    if (status == ANYFLASH_OK)
        return af_part_finish(part, err);
    if (status == ANYFLASH_E_DATA)
        af_part_remove(part);
    return status;
}

/* A finished file with the expected hash. */
static bool is_there(const struct af_download *download, struct af_download_result *result)
{
    return download->sha256 != NULL && af_file_is_regular(download->path) &&
           af_file_sha256(download->path, result->sha256, &result->size_bytes, NULL) ==
               ANYFLASH_OK &&
           af_sha256_equal(download->sha256, result->sha256);
}

enum anyflash_status af_download_run(struct af_http *http, const struct af_download *download,
                                     struct af_download_result *result_out,
                                     struct anyflash_error *err)
{
    struct af_download_result result = {.attempts = 0};
    struct af_part part;
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
                       "the expected sha256 has not 64 hexadecimal "
                       "digits");
    enum anyflash_status status = af_part_open(download->path, download->url, &part, err);
    if (status != ANYFLASH_OK)
        return status;
    status = download_part(http, &transfer, err);
    af_part_close(&part);
    if (status == ANYFLASH_OK)
        *result_out = result;
    return status;
}
