/*
 * catalog.c: loads the wheels that are known, embedded or from a newer file.
 * The two forms are read in catalog_pack.c and catalog_rows.c.
 */
#include "fit/catalog.h"

#include "base/file.h"
#include "fit/catalog_pack.h"
#include "fit/catalog_rows.h"
#include "fit/embedded.h"

static enum anyflash_status load_embedded(struct af_catalog *catalog,
                                          struct anyflash_error *err)
{
    struct af_span bytes;
    catalog->name = "embedded";
    enum anyflash_status status =
        af_embedded_open(&af_embedded_catalog, &catalog->arena, &bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_catalog_unpack(bytes, &catalog->arena, &catalog->wheels, &catalog->count,
                             &catalog->date, err);
}

static enum anyflash_status load_file(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err)
{
    struct af_arena text; /* released once the rows are read: they are copies */
    struct af_span bytes;
    af_arena_init(&text);
    catalog->name = af_arena_text(&catalog->arena, path);
    enum anyflash_status status = af_file_read(&text, path, AF_CATALOG_BYTES_MAX, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_catalog_rows_read(bytes, path, &catalog->arena, &catalog->wheels,
                                      &catalog->count, &catalog->date, err);
    af_arena_release(&text);
    if (status == ANYFLASH_OK && catalog->arena.failed)
        status = af_fail_memory(err);
    return status;
}

enum anyflash_status af_catalog_load(struct af_catalog *catalog, const char *path,
                                     struct anyflash_error *err)
{
    struct af_catalog loaded = {0};
    af_arena_init(&loaded.arena);
    enum anyflash_status status =
        path == NULL ? load_embedded(&loaded, err) : load_file(&loaded, path, err);
    if (status == ANYFLASH_OK)
        *catalog = loaded;
    else
        af_arena_release(&loaded.arena);
    return status;
}

void af_catalog_release(struct af_catalog *catalog)
{
    af_arena_release(&catalog->arena);
    *catalog = (struct af_catalog){0};
}
