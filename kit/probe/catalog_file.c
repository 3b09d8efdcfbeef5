/* catalog_file.c: reads catalog files whole and parses them. */
#include "kit/probe/catalog_file.h"

#include "kit/catalog/catalog_stored.h"
#include "kit/system/file.h"

typedef enum anyflash_status parse_function(struct af_catalog *catalog, struct af_span bytes,
                                            const char *name, struct anyflash_error *err);

static enum anyflash_status read_with(parse_function *parse, struct af_catalog *catalog,
                                      const char *path, struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, path, AF_CATALOG_BYTES_MAX, &bytes, err);
    if (status == ANYFLASH_OK)
        status = parse(catalog, bytes, path, err);
    af_arena_release(&arena);
    return status;
}

enum anyflash_status af_probe_catalog(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err)
{
    return read_with(af_catalog_parse, catalog, path, err);
}

enum anyflash_status af_probe_catalog_stored(struct af_catalog *catalog, const char *path,
                                             struct anyflash_error *err)
{
    return read_with(af_catalog_stored_parse, catalog, path, err);
}
