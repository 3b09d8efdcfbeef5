/*
 * fuzz_query.c: any text as the words of a query, one per line, over the
 * embedded catalog.
 */
#include "kit/base/text.h"
#include "kit/catalog/query.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct af_catalog catalog;
    struct af_arena arena;
    struct af_query query;
    struct anyflash_error err = {0};
    const struct af_catalog_wheel *const *wheels;
    const char *words[AF_QUERY_WORDS_MAX + 1];
    size_t count = 0, found;
    if (catalog.wheels == NULL && af_catalog_load_embedded(&catalog, NULL) != ANYFLASH_OK)
        abort();
    af_arena_init(&arena);
    char *rest = af_arena_text_n(&arena, size == 0 ? "" : (const char *)data, size);
    while (rest != NULL && count < AF_COUNT(words))
        words[count++] = strsep(&rest, "\n");
    if (af_query_parse(words, count, &arena, &query, &err) == ANYFLASH_OK)
        af_query_run(&query, &catalog, &arena, &wheels, &found);
    af_arena_release(&arena);
    return 0;
}
