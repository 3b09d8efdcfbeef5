/*
 * catalog.c: loads the known wheels, embedded or from a newer file.
 * catalog_pack.c and catalog_rows.c read the two formats.
 */
#include "kit/catalog/catalog.h"

#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/catalog/catalog_update.h"
#include "kit/formats/embedded.h"
#include "kit/formats/version.h"

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
    return publish(&made, status, catalog);
}

/* The rank of `version` among the catalog's: the highest of those that are not newer. */
static int32_t rank_of(const struct af_catalog *catalog, const char *version)
{
    struct af_version own;
    struct af_version other;
    int32_t rank = 0;
    const char *last = NULL; /* equal texts share one pointer */
    af_version_parse(version, strlen(version), &own);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (wheel->version_rank <= rank || wheel->version == last)
            continue;
        last = wheel->version;
        if (af_version_parse(last, strlen(last), &other) &&
            af_version_compare_public(&other, &own) <= 0)
            rank = wheel->version_rank;
    }
    return rank;
}

/* Rows for the files that are wheels of ours; named_out lists their paths. */
static void write_rows(const char *const *paths, size_t count, struct af_text *rows,
                       const char **named_out)
{
    static const struct af_listing_source here = {.source = "this machine",
                                                  .kind = "community"};
    for (size_t i = 0; i < count; i++)
        if (af_listing_add_file(af_path_name(paths[i]), &here, rows))
            *named_out++ = paths[i];
}

enum anyflash_status af_catalog_add_files(struct af_catalog *catalog, const char *const *paths,
                                          size_t count, struct anyflash_error *err)
{
    const struct af_catalog_wheel *files = NULL;
    size_t file_count = 0;
    const char *date = NULL;
    struct af_text rows = {0};
    const char **named = af_arena_array(&catalog->arena, count + 1, sizeof *named);
    write_rows(paths, count, &rows, named);
    const struct af_span bytes = {af_text_get(&rows), rows.len};
    enum anyflash_status status = af_catalog_rows_read(
        bytes, "wheels on this machine", &catalog->arena, &files, &file_count, &date, err);
    af_text_release(&rows);
    if (status != ANYFLASH_OK || file_count == 0)
        return status;
    struct af_catalog_wheel *all =
        af_arena_array(&catalog->arena, catalog->count + file_count, sizeof *all);
    memcpy(all, catalog->wheels, catalog->count * sizeof *all);
    for (size_t i = 0; i < file_count; i++) {
        struct af_catalog_wheel *wheel = &all[catalog->count + i];
        *wheel = files[i];
        wheel->path = af_arena_text(&catalog->arena, named[i]);
        wheel->version_rank = rank_of(catalog, wheel->version);
    }
    catalog->wheels = all;
    catalog->count += file_count;
    return ANYFLASH_OK;
}

bool af_catalog_is_torch_free(const struct af_catalog_wheel *wheel)
{
    return wheel->local != NULL && af_starts_with(wheel->local, "any.ptx");
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
