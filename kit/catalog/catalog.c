/*
 * catalog.c: loads the known wheels, embedded or from a newer file.
 * catalog_pack.c and catalog_rows.c read the two formats.
 */
#include "kit/catalog/catalog.h"

#include <string.h>

#include "kit/base/sha256.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/catalog/catalog_rows.h"
#include "kit/formats/embedded.h"

static enum anyflash_status unpack_embedded(struct af_catalog *catalog,
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

static enum anyflash_status publish(struct af_catalog *made, enum anyflash_status status,
                                    struct af_catalog *catalog_out)
{
    if (status == ANYFLASH_OK)
        *catalog_out = *made;
    else
        af_arena_release(&made->arena);
    return status;
}

enum anyflash_status af_catalog_load_embedded(struct af_catalog *catalog,
                                              struct anyflash_error *err)
{
    struct af_catalog made = {0};
    af_arena_init(&made.arena);
    return publish(&made, unpack_embedded(&made, err), catalog);
}

enum anyflash_status af_catalog_parse(struct af_catalog *catalog, struct af_span bytes,
                                      const char *name, struct anyflash_error *err)
{
    struct af_catalog made = {0};
    af_arena_init(&made.arena);
    made.name = af_arena_text(&made.arena, name);
    enum anyflash_status status = af_catalog_rows_read(bytes, name, &made.arena, &made.wheels,
                                                       &made.count, &made.date, err);
    if (status == ANYFLASH_OK && made.arena.failed)
        status = af_fail_memory(err);
    return publish(&made, status, catalog);
}

void af_catalog_release(struct af_catalog *catalog)
{
    af_arena_release(&catalog->arena);
    *catalog = (struct af_catalog){0};
}

bool af_catalog_predates_torch(const struct af_catalog *catalog, int major, int minor)
{
    const struct af_catalog_torch_release *release = af_tables_torch(major, minor);
    const struct af_catalog_torch_release *newest = &af_tables.torch[af_tables.torch_count - 1];
    if (catalog->date == NULL)
        return false;
    if (release != NULL)
        return strcmp(release->released, catalog->date) >= 0;
    return major > newest->torch_major ||
           (major == newest->torch_major && minor > newest->torch_minor);
}

const char *af_catalog_sha256(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    char hex[AF_SHA256_HEX_BYTES];
    if (wheel->sha256 == NULL)
        return NULL;
    af_sha256_to_hex(wheel->sha256, hex);
    return af_arena_text(arena, hex);
}
