/*
 * stage_origin.c: direct_url.json of what was unpacked from our copy: the
 * address it really came from, and its hash. Source: PEP 610.
 */
#include "kit/install/stage.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/install/distribution.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

static int digit(char letter)
{
    return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

/* The hash as RECORD writes it: base64url without padding (PEP 376). */
static void record_hash(const char *hex, char text[44])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t i = 0; i < 43; i++) {
        size_t bit = i * 6;
        unsigned pair = 0;
        for (size_t j = 0; j < 3; j++) { /* the twelve bits from the digit of `bit` on */
            size_t at = bit / 4 + j;
            pair = pair << 4 | (unsigned)(at < 64 ? digit(hex[at]) : 0);
        }
        text[i] = letters[pair >> (12 - 6 - bit % 4) & 63];
    }
    text[43] = '\0';
}

static bool starts_with(struct af_span line, const char *start)
{
    size_t len = strlen(start);
    return line.len >= len && memcmp(line.data, start, len) == 0;
}

/* RECORD with the line of direct_url.json anew, at its end, and none of uv_cache.json. */
static enum anyflash_status rewrite_record(struct af_arena *arena, const char *info,
                                           const char *folder, const char *text,
                                           struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    char hash[44];
    struct af_span record;
    struct af_span line;
    struct af_text made = {0};
    const char *path = af_path_join(arena, info, "RECORD");
    const char *start = af_arena_format(arena, "%s/direct_url.json,", folder);
    const char *cache = af_arena_format(arena, "%s/uv_cache.json,", folder);
    if (arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_read(arena, path, AF_RECORD_BYTES_MAX, &record, err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_text_line(&record, &line)) {
        if (starts_with(line, start) || starts_with(line, cache))
            continue;
        af_text_add_n(&made, line.data, line.len);
        af_text_add(&made, "\n");
    }
    af_sha256_bytes((struct af_span){text, strlen(text)}, hex);
    record_hash(hex, hash);
    af_text_format(&made, "%ssha256=%s,%zu\n", start, hash, strlen(text));
    status = made.failed ? af_fail_memory(err)
                         : af_file_write_text(arena, path, af_text_get(&made), err);
    af_text_release(&made);
    return status;
}

static enum anyflash_status write_origin(struct af_arena *arena, const char *fresh,
                                         const char *folder, const char *url,
                                         const char *sha256, struct anyflash_error *err)
{
    const char *info = af_path_join(arena, fresh, folder);
    const char *path = af_path_join(arena, info, "direct_url.json");
    json_t *json = json_pack("{s:s, s:{s:o, s:{s:s}}}", "url", url, "archive_info", "hash",
                             json_sprintf("sha256=%s", sha256), "hashes", "sha256", sha256);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text == NULL || path == NULL) {
        af_mem_free(text);
        return af_fail_memory(err);
    }
    enum anyflash_status status = af_file_write_text(arena, path, text, err);
    if (status == ANYFLASH_OK)
        status = rewrite_record(arena, info, folder, text, err);
    /* It remembers the file that uv unpacked, our copy. */
    const char *cache = af_path_join(arena, info, "uv_cache.json");
    if (status == ANYFLASH_OK && cache != NULL)
        unlink(cache);
    af_mem_free(text);
    return status;
}

enum anyflash_status af_stage_origin(struct af_stage *stage, const char *package,
                                     const char *url, const char *sha256,
                                     struct anyflash_error *err)
{
    struct af_distribution *list;
    size_t count;
    enum anyflash_status status =
        af_distributions_list(stage->run->arena, stage->fresh, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (strcmp(list[i].name, package) == 0)
            return write_origin(stage->run->arena, stage->fresh, list[i].folder, url, sha256,
                                err);
    return status;
}
