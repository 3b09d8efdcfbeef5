/*
 * fuzz_listing.c: any bytes as a page of releases. The resulting rows must be
 * valid catalog rows, or be rejected with a message.
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
    size_t releases;
    struct af_text rows = {0};
    struct af_arena arena;
    const struct af_catalog_wheel *wheels = NULL;
    const char *date = NULL;
    size_t count = 0;
    struct af_span page = {(const char *)data, size};
    af_arena_init(&arena);
    if (af_listing_read(page, "page", &source, &rows, &releases, NULL) == ANYFLASH_OK) {
        struct af_span bytes = {af_text_get(&rows), rows.len};
        if (af_catalog_rows_read(bytes, "rows", &arena, &wheels, &count, &date, NULL) ==
            ANYFLASH_OK) {
            size_t lines = 0;
            for (size_t i = 0; i < rows.len; i++)
                lines += rows.data[i] == '\n';
            if (count != lines)
                abort();
            write_again(wheels, count);
        }
    }
    af_text_release(&rows);
    af_arena_release(&arena);
    return 0;
}
