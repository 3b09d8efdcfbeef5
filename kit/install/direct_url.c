/*
 * direct_url.c: writes direct_url.json (PEP 610) and its line of RECORD.
 */
#include "kit/install/direct_url.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

static bool starts_with(struct af_span line, const char *start)
{
    size_t len = strlen(start);
    return line.len >= len && memcmp(line.data, start, len) == 0;
}

/*
 * Rewrites RECORD: the line of direct_url.json is replaced and moved to the end, or removed if
 * `text` is NULL; that of uv_cache.json is removed.
 */
static enum anyflash_status rewrite_record(struct af_arena *arena, const char *info,
                                           const char *folder, const char *text,
                                           struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    char hash[AF_SHA256_RECORD_BYTES];
    struct af_span record;
    struct af_span line;
    struct af_text made = {0};
    const char *path = af_path_join(arena, info, "RECORD");
    const char *start = af_arena_format(arena, "%s/direct_url.json,", folder);
    const char *cache = af_arena_format(arena, "%s/uv_cache.json,", folder);
    enum anyflash_status status = af_file_read(arena, path, AF_RECORD_BYTES_MAX, &record, err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_text_line(&record, &line)) {
        if (starts_with(line, start) || starts_with(line, cache))
            continue;
        af_text_add_n(&made, line.data, line.len);
        af_text_add(&made, "\n");
    }
    if (text != NULL) {
        af_sha256_bytes((struct af_span){text, strlen(text)}, hex);
        af_sha256_to_record(hex, hash);
        af_text_format(&made, "%ssha256=%s,%zu\n", start, hash, strlen(text));
    }
    status = af_file_write_text(arena, path, af_text_get(&made), err);
    af_text_release(&made);
    return status;
}

static enum anyflash_status write_files(struct af_arena *arena, const char *site,
                                        const char *folder, const char *text,
                                        struct anyflash_error *err)
{
    const char *info = af_path_join(arena, site, folder);
    const char *path = af_path_join(arena, info, "direct_url.json");
    const char *cache = af_path_join(arena, info, "uv_cache.json");
    enum anyflash_status status = ANYFLASH_OK;
    if (text != NULL)
        status = af_file_write_text(arena, path, text, err);
    else
        unlink(path);
    if (status == ANYFLASH_OK)
        status = rewrite_record(arena, info, folder, text, err);
    unlink(cache); /* it records the file that was unpacked, which is our copy */
    return status;
}

enum anyflash_status af_installed_origin_write(struct af_arena *arena, const char *site,
                                               const char *package, const char *url,
                                               const char *sha256, struct anyflash_error *err)
{
    struct af_distribution *list;
    size_t count;
    char *text = NULL;
    if (url != NULL) {
        json_t *json = json_pack("{s:s, s:{s:o, s:{s:s}}}", "url", url, "archive_info", "hash",
                                 json_sprintf("sha256=%s", sha256), "hashes", "sha256", sha256);
        text = json_dumps(json, JSON_COMPACT);
        json_decref(json);
        if (text == NULL)
            return af_fail(err, ANYFLASH_E_DATA, "the wheel's address is not UTF-8");
    }
    enum anyflash_status status = af_distributions_list(arena, site, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (strcmp(list[i].name, package) == 0)
            status = write_files(arena, site, list[i].folder, text, err);
    af_memory_free(text);
    return status;
}
