/*
 * net_try.c: makes one request or download, for the tests of this
 * folder. Prints what happened as JSON; exits with 0, or with 3 and the status
 * and message of the failure.
 *
 *     net_try get URL
 *     net_try download URL PATH SHA256|- SIZE|-
 *
 * $TRY_HTTP=1 allows plain http, $TRY_OFFLINE=1 allows no request, $TRY_STALL_S
 * and $TRY_MAX_BYTES set limits, $TRY_WHEEL=0 accepts any content.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/system/download.h"

static int64_t number_of(const char *text, int64_t fallback)
{
    int64_t number = fallback;
    if (text != NULL)
        af_parse_i64(text, 0, INT64_MAX, &number);
    return number;
}

static int print(json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1));
    printf("%s\n", text != NULL ? text : "{}");
    af_memory_free(text);
    json_decref(json);
    return 0;
}

static enum anyflash_status get(const struct af_http *http, char **words,
                                struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    struct af_http_answer answer;
    char hex[AF_SHA256_HEX_BYTES];
    size_t max_bytes = (size_t)number_of(getenv("TRY_MAX_BYTES"), 1 << 20);
    af_arena_init(&arena);
    enum anyflash_status status =
        af_http_get_bytes(http, words[0], NULL, max_bytes, &arena, &bytes, &answer, err);
    if (status == ANYFLASH_OK) {
        af_sha256_bytes(bytes, hex);
        print(json_pack("{s:i, s:I, s:s, s:s, s:s}", "status", answer.status, "size",
                        (json_int_t)bytes.len, "sha256", hex, "url", answer.url, "etag",
                        answer.etag));
    }
    af_arena_release(&arena);
    return status;
}

static bool show_progress(void *context, uint64_t done, int64_t total)
{
    (void)context;
    fprintf(stderr, "progress %llu %lld\n", (unsigned long long)done, (long long)total);
    return true;
}

static enum anyflash_status download(const struct af_http *http, char **words,
                                     struct anyflash_error *err)
{
    struct af_download_result result;
    struct af_download download = {
        .url = words[0],
        .path = words[1],
        .sha256 = strcmp(words[2], "-") == 0 ? NULL : words[2],
        .size_bytes = strcmp(words[3], "-") == 0 ? -1 : number_of(words[3], -1),
        .max_bytes = (uint64_t)number_of(getenv("TRY_MAX_BYTES"), 0),
        .wheel = number_of(getenv("TRY_WHEEL"), 1) != 0,
        .progress = show_progress};
    enum anyflash_status status = af_download_run(http, &download, &result, err);
    if (status == ANYFLASH_OK)
        print(json_pack("{s:s, s:I, s:I, s:i}", "sha256", result.sha256, "size",
                        (json_int_t)result.size_bytes, "received",
                        (json_int_t)result.received_bytes, "attempts", result.attempts));
    return status;
}

static enum anyflash_status run(int argc, char **argv, struct anyflash_error *err)
{
    const struct af_http http = {.allow_http = number_of(getenv("TRY_HTTP"), 0) == 1,
                                 .offline = number_of(getenv("TRY_OFFLINE"), 0) == 1,
                                 .stall_s = (int)number_of(getenv("TRY_STALL_S"), 0)};
    enum anyflash_status status = ANYFLASH_OK;
    if (argc == 3 && strcmp(argv[1], "get") == 0)
        status = get(&http, argv + 2, err);
    else if (argc == 6 && strcmp(argv[1], "download") == 0)
        status = download(&http, argv + 2, err);
    else
        status = af_fail(err, ANYFLASH_E_ARGUMENT, "see the head of net_try.c");
    return status;
}

int main(int argc, char **argv)
{
    struct anyflash_error err = {0};
    af_json_start();
    enum anyflash_status status = run(argc, argv, &err);
    if (status == ANYFLASH_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", anyflash_status_text(status), err.message);
    return 3;
}
