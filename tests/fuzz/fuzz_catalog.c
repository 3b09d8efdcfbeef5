/*
 * fuzz_catalog.c: any bytes as catalog rows and as a packed catalog. Rows that
 * were read must pack and unpack to the same number of wheels.
 */
#include "kit/base/json.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_pack.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_packing(const struct af_catalog_wheel *wheels, size_t count,
                          struct af_arena *arena)
{
    struct af_text packed = {0};
    const struct af_catalog_wheel *again;
    const char *date;
    size_t again_count;
    if (af_catalog_pack(wheels, count, NULL, &packed, NULL) == ANYFLASH_OK &&
        (af_catalog_unpack((struct af_span){packed.data, packed.len}, arena, &again,
                           &again_count, &date, NULL) != ANYFLASH_OK ||
         again_count != count || date != NULL))
        abort();
    af_text_release(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct af_span bytes = {(const char *)data, size};
    struct af_arena arena;
    const struct af_catalog_wheel *wheels;
    struct anyflash_error err = {0};
    const char *date;
    size_t count;
    if (!started)
        af_json_start();
    started = true;
    af_arena_init(&arena);
    if (af_catalog_rows_read(bytes, "fuzz", &arena, &wheels, &count, &date, &err) ==
        ANYFLASH_OK)
        check_packing(wheels, count, &arena);
    af_catalog_unpack(bytes, &arena, &wheels, &count, &date, &err);
    af_arena_release(&arena);
    return 0;
}
