/*
 * fuzz_index_page.c: any bytes as a project's page of a package index. A hash
 * that is found must be one.
 */
#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/catalog/listing.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct af_arena arena;
    const char *sha256 = NULL;
    bool found = false;
    if (!started)
        af_json_start();
    started = true;
    af_arena_init(&arena);
    if (af_index_page_find((struct af_span){(const char *)data, size}, "page", "a-1+b.whl",
                           &arena, &found, &sha256, NULL) == ANYFLASH_OK &&
        sha256 != NULL && (!found || !af_sha256_is_hex(sha256)))
        abort();
    af_arena_release(&arena);
    return 0;
}
