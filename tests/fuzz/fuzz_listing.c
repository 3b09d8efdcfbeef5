/*
 * fuzz_listing.c: any bytes as a page of releases. Its wheels, written as rows, must be read
 * again as they were.
 */
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_update.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Rows that were read must be equal when they are read again. */
static void write_again(const struct af_catalog_wheel *wheels, size_t count)
{
    struct af_text rows = {0};
    struct af_arena arena;
    const struct af_catalog_wheel *again = NULL;
    const char *date = NULL;
    size_t again_count = 0;
    af_arena_init(&arena);
    for (size_t i = 0; i < count; i++)
        af_catalog_write_row(&rows, &wheels[i]);
    struct af_span bytes = {af_text_get(&rows), rows.len};
    if (af_catalog_rows_read(bytes, "again", &arena, &again, &again_count, &date, NULL) !=
            ANYFLASH_OK ||
        again_count != count)
        abort();
    for (size_t i = 0; i < count; i++)
        if (strcmp(again[i].filename, wheels[i].filename) != 0 ||
            again[i].cxx11abi != wheels[i].cxx11abi || again[i].rocm != wheels[i].rocm)
            abort();
    af_arena_release(&arena);
    af_text_release(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct af_listing_source source = {"o/n", "community", "https://h/"};
    size_t releases, count;
    struct af_arena arena;
    struct af_catalog_list list = {.arena = &arena};
    struct af_span page = {(const char *)data, size};
    af_arena_init(&arena);
    af_listing_read(page, "page", &source, &list, &releases, NULL);
    const struct af_catalog_wheel *wheels = af_catalog_list_take(&list, &count);
    write_again(wheels, count);
    af_arena_release(&arena);
    return 0;
}
