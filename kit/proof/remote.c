/*
 * remote.c: reads ranges of a file at a URL, in blocks that are cached. A read that continues
 * where the last one ended fetches more blocks at a time, because each request is a new
 * connection; random access reads few bytes.
 */
#include "kit/proof/remote.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/http.h"
#include "kit/system/output.h"
#include "kit/system/state.h"

#define BLOCK AF_REMOTE_BLOCK_BYTES
#define SLOTS 128u
#define AHEAD_MAX 32u /* blocks of one request */
#define ATTEMPTS 4
#define START_BYTES 512u

struct slot {
    unsigned char *bytes; /* AF_REMOTE_BLOCK_BYTES of them; NULL: not used yet */
    uint64_t block;
    uint64_t used; /* number of the read that used it last; 0: empty */
};

struct remote {
    const struct af_http *http;
    struct af_http_answer first; /* the answer that all later ones must agree with */
    uint64_t reads;
    uint64_t next_block; /* the block after the last one fetched */
    size_t ahead;        /* blocks that the next sequential request fetches */
    struct slot slots[SLOTS];
    char name[AF_URL_SHOWN_BYTES];
    char url[AF_URL_BYTES_MAX];
};

/* One request for blocks. */
struct fetch {
    struct remote *remote;
    struct af_source *source;
    uint64_t block; /* the first block */
    uint64_t want;  /* bytes */
    uint64_t got;
    struct slot *slots[AHEAD_MAX];
    bool whole;              /* the server sends the whole file instead of a part */
    char start[START_BYTES]; /* in that case its first bytes */
    size_t start_len;
};

static enum anyflash_status refuse_start(const char *name, struct af_span start,
                                         struct anyflash_error *err)
{
    const char *what = af_download_not_a_wheel(start);
    if (what == NULL)
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_DATA, "'%s' is %s", name, what);
}

/* The first answer sets size and validators; later ones must agree with it. */
static enum anyflash_status check_answer(void *context, const struct af_http_answer *answer,
                                         struct anyflash_error *err)
{
    struct fetch *fetch = context;
    struct remote *remote = fetch->remote;
    const struct af_http_answer *first = &remote->first;
    fetch->whole = answer->status == 200;
    if (fetch->whole && first->status == 0)
        return ANYFLASH_OK;
    if (!fetch->whole && answer->range_total < 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s': the server did not send the file's size", remote->name);
    if (first->status == 0) {
        remote->first = *answer;
        return ANYFLASH_OK;
    }
    if (fetch->whole || answer->range_total != first->range_total ||
        strcmp(answer->etag, first->etag) != 0 ||
        strcmp(answer->last_modified, first->last_modified) != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' changed while it was being read",
                       remote->name);
    return ANYFLASH_OK;
}

/* Collects the start of a file that is sent whole: it may show why (a web page). */
static enum anyflash_status take_whole(struct fetch *fetch, const char *bytes, size_t len,
                                       struct anyflash_error *err)
{
    size_t capacity = sizeof fetch->start - fetch->start_len;
    size_t taken = len < capacity ? len : capacity;
    memcpy(fetch->start + fetch->start_len, bytes, taken);
    fetch->start_len += taken;
    if (fetch->start_len < sizeof fetch->start)
        return ANYFLASH_OK;
    /* replaced by the message of explain_whole() */
    return af_fail(err, ANYFLASH_E_UNSUPPORTED, "stopped");
}

static enum anyflash_status take_part(void *context, const void *bytes, size_t len,
                                      struct anyflash_error *err)
{
    struct fetch *fetch = context;
    const char *from = bytes;
    fetch->source->bytes_read += len;
    if (fetch->whole)
        return take_whole(fetch, from, len, err);
    if (len > fetch->want - fetch->got)
        return af_fail(err, ANYFLASH_E_DATA, "'%s': the server sent more than was requested",
                       fetch->remote->name);
    while (len > 0) {
        size_t at = (size_t)(fetch->got % BLOCK);
        size_t piece = len < BLOCK - at ? len : BLOCK - at;
        memcpy(fetch->slots[fetch->got / BLOCK]->bytes + at, from, piece);
        fetch->got += piece;
        from += piece;
        len -= piece;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status explain_whole(const struct fetch *fetch, struct anyflash_error *err)
{
    struct af_span start = {fetch->start, fetch->start_len};
    enum anyflash_status status = refuse_start(fetch->remote->name, start, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_fail(
        err, ANYFLASH_E_UNSUPPORTED,
        "'%s': the server does not support range requests; the whole file must be downloaded",
        fetch->remote->name);
}

/* Tries one request. The address after redirects is used first; it may have expired. */
static enum anyflash_status try_fetch(struct fetch *fetch, bool directly, bool *may_pass_out,
                                      struct anyflash_error *err)
{
    struct remote *remote = fetch->remote;
    struct af_http_answer answer;
    struct af_http_request request = {.url = directly ? remote->first.url : remote->url,
                                      .first = (int64_t)(fetch->block * BLOCK),
                                      .last = (int64_t)(fetch->block * BLOCK + fetch->want) - 1,
                                      .max_bytes = UINT64_MAX,
                                      .head = check_answer,
                                      .body = take_part,
                                      .context = fetch};
    fetch->got = 0;
    fetch->start_len = 0;
    enum anyflash_status status = af_http_get(remote->http, &request, &answer, err);
    *may_pass_out = answer.may_pass || (directly && answer.status >= 400);
    if (fetch->whole && remote->first.status == 0 && answer.status == 200)
        return explain_whole(fetch, err);
    uint64_t there = (uint64_t)remote->first.range_total;
    uint64_t left = status == ANYFLASH_OK ? there - fetch->block * BLOCK : 0;
    if (status == ANYFLASH_OK && fetch->got != (left < fetch->want ? left : fetch->want))
        status = af_fail(err, ANYFLASH_E_DATA,
                         "'%s': the server sent %llu of %llu requested bytes", remote->name,
                         (unsigned long long)fetch->got, (unsigned long long)fetch->want);
    return status;
}

static enum anyflash_status run_fetch(struct fetch *fetch, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        bool may_pass = false;
        bool directly = attempt == 1 && fetch->remote->first.status != 0;
        status = try_fetch(fetch, directly, &may_pass, err);
        if (status == ANYFLASH_OK || !may_pass)
            break;
        if (!directly && attempt < ATTEMPTS)
            af_http_wait(attempt);
    }
    return status;
}

static struct slot *find_slot(struct remote *remote, uint64_t block)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (remote->slots[i].used != 0 && remote->slots[i].block == block)
            return &remote->slots[i];
    return NULL;
}

/* A slot for `block`: the least recently used one. NULL if memory runs out. */
static struct slot *take_slot(struct remote *remote, uint64_t block)
{
    struct slot *oldest = &remote->slots[0];
    for (size_t i = 1; i < SLOTS; i++)
        if (remote->slots[i].used < oldest->used)
            oldest = &remote->slots[i];
    if (oldest->bytes == NULL)
        oldest->bytes = af_mem_alloc(BLOCK);
    if (oldest->bytes == NULL)
        return NULL;
    oldest->block = block;
    oldest->used = remote->reads;
    return oldest;
}

/* The first block to fetch for `block`. The end of an archive is read backwards. */
static uint64_t choose_first(struct remote *remote, uint64_t block, uint64_t block_count)
{
    bool two = block > 0 && block + 1 == block_count && find_slot(remote, block - 1) == NULL;
    return two ? block - 1 : block;
}

/* How many blocks to fetch from `block` on; `needed` of them are needed now. */
static size_t choose_count(struct remote *remote, uint64_t block, size_t needed,
                           uint64_t block_count)
{
    size_t count = 1;
    remote->ahead = block == remote->next_block ? remote->ahead * 4 : 1;
    remote->ahead = remote->ahead < AHEAD_MAX ? remote->ahead : AHEAD_MAX;
    size_t most = needed > remote->ahead ? needed : remote->ahead;
    most = most < AHEAD_MAX ? most : AHEAD_MAX;
    while (count < most && block + count < block_count &&
           find_slot(remote, block + count) == NULL)
        count++;
    return count;
}

/* Fetches blocks from `block` on into slots; a failed request leaves no blocks. */
static enum anyflash_status fetch_blocks(struct af_source *source, uint64_t block, size_t count,
                                         struct anyflash_error *err)
{
    struct remote *remote = source->context;
    struct fetch fetch = {
        .remote = remote, .source = source, .block = block, .want = (uint64_t)count * BLOCK};
    enum anyflash_status status = ANYFLASH_OK;
    size_t taken = 0;
    if (source->size_bytes > 0 && fetch.want > source->size_bytes - block * BLOCK)
        fetch.want = source->size_bytes - block * BLOCK;
    for (; taken < count && status == ANYFLASH_OK; taken++) {
        fetch.slots[taken] = take_slot(remote, block + taken);
        if (fetch.slots[taken] == NULL)
            break;
    }
    status = taken < count ? af_fail_memory(err) : run_fetch(&fetch, err);
    for (size_t i = 0; status != ANYFLASH_OK && i < taken; i++)
        fetch.slots[i]->used = 0;
    remote->next_block = block + count;
    return status;
}

static enum anyflash_status read_remote(struct af_source *source, uint64_t offset, void *to,
                                        size_t len, struct anyflash_error *err)
{
    struct remote *remote = source->context;
    uint64_t last = (offset + len - 1) / BLOCK;
    uint64_t block_count = (source->size_bytes + BLOCK - 1) / BLOCK;
    for (size_t done = 0; done < len;) {
        uint64_t block = (offset + done) / BLOCK;
        size_t at = (size_t)((offset + done) % BLOCK);
        remote->reads++;
        struct slot *slot = find_slot(remote, block);
        if (slot == NULL) {
            uint64_t first = choose_first(remote, block, block_count);
            size_t count = choose_count(remote, first, (size_t)(last - first) + 1, block_count);
            enum anyflash_status status = fetch_blocks(source, first, count, err);
            if (status != ANYFLASH_OK)
                return status;
            slot = find_slot(remote, block);
        }
        slot->used = remote->reads;
        size_t piece = len - done < BLOCK - at ? len - done : BLOCK - at;
        memcpy((char *)to + done, slot->bytes + at, piece);
        done += piece;
    }
    return ANYFLASH_OK;
}

static void close_remote(struct af_source *source)
{
    struct remote *remote = source->context;
    for (size_t i = 0; i < SLOTS; i++)
        af_mem_free(remote->slots[i].bytes);
    af_mem_free(remote);
}

/* Fetches the first block: it shows the file's size and whether ranges are supported. */
static enum anyflash_status read_first(struct af_source *source, struct anyflash_error *err)
{
    struct remote *remote = source->context;
    remote->reads = 1;
    enum anyflash_status status = fetch_blocks(source, 0, 1, err);
    if (status != ANYFLASH_OK)
        return status;
    source->size_bytes = (uint64_t)remote->first.range_total;
    size_t len = source->size_bytes < START_BYTES ? (size_t)source->size_bytes : START_BYTES;
    struct slot *slot = find_slot(remote, 0);
    return refuse_start(remote->name, (struct af_span){(const char *)slot->bytes, len}, err);
}

enum anyflash_status af_remote_open(const struct af_http *http, const char *url,
                                    struct af_source *source_out, struct anyflash_error *err)
{
    struct remote *remote = af_mem_alloc(sizeof *remote);
    if (remote == NULL)
        return af_fail_memory(err);
    memset(remote, 0, sizeof *remote);
    remote->http = http;
    af_url_show(remote->name, sizeof remote->name, url);
    snprintf(remote->url, sizeof remote->url, "%s", url);
    struct af_source source = {.name = remote->name,
                               .is_remote = true,
                               .read_at = read_remote,
                               .close = close_remote,
                               .context = remote};
    enum anyflash_status status =
        strlen(url) < sizeof remote->url
            ? read_first(&source, err)
            : af_fail(err, ANYFLASH_E_LIMIT, "the URL '%s' is too long", remote->name);
    if (status != ANYFLASH_OK) {
        af_source_close(&source);
        return status;
    }
    *source_out = source;
    return ANYFLASH_OK;
}

/*
 * The file name comes from the address and may be anything; the folder is named by the
 * address's hash.
 */
static enum anyflash_status download(const struct af_http *http, const char *url,
                                     const char *path, struct af_download_result *result,
                                     struct anyflash_error *err)
{
    const struct af_download order = {
        .url = url, .path = path, .size_bytes = -1, .wheel = true};
    return af_download_run(http, &order, result, err);
}

enum anyflash_status af_remote_download(const struct af_http *http, const char *url,
                                        struct af_arena *arena, struct af_source *source_out,
                                        struct anyflash_error *err)
{
    struct af_download_result result;
    const char *folder;
    enum anyflash_status status = af_cache_wheel_folder(arena, url, &folder, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(folder, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *path = af_path_join(arena, folder, "inspected.whl");
    if (path == NULL)
        return af_fail_memory(err);
    status = download(http, url, path, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_file_source_open(path, source_out, err);
    unlink(path);
    rmdir(folder);
    if (status != ANYFLASH_OK)
        return status;
    source_out->bytes_read = source_out->size_bytes;
    return ANYFLASH_OK;
}
