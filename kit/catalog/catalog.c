/*
 * catalog.c: loads the known wheels, embedded or from a newer file.
 * catalog_pack.c and catalog_rows.c read the two formats.
 */
#include "kit/catalog/catalog.h"

#include <stdio.h>
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

/* The known wheels, then the files among `paths` that are wheels of ours. */
static enum anyflash_status add_all(struct af_catalog_list *list,
                                    const struct af_catalog *catalog, const char *const *paths,
                                    size_t count, struct anyflash_error *err)
{
    static const struct af_listing_source here = {.source = "this machine",
                                                  .kind = "community"};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < catalog->count; i++)
        status = af_catalog_list_add(list, &catalog->wheels[i], catalog->name, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const size_t before = list->count;
        status = af_listing_add_file(af_path_name(paths[i]), &here, list, err);
        if (list->count > before)
            list->wheels[before].path = af_arena_text(list->arena, paths[i]);
    }
    return status;
}

enum anyflash_status af_catalog_add_files(struct af_catalog *catalog, const char *const *paths,
                                          size_t count, struct anyflash_error *err)
{
    struct af_catalog_list list = {.arena = &catalog->arena};
    enum anyflash_status status = add_all(&list, catalog, paths, count, err);
    if (status != ANYFLASH_OK || list.count == catalog->count) {
        af_catalog_list_release(&list);
        return status;
    }
    catalog->wheels = af_catalog_list_take(&list, &catalog->count);
    return ANYFLASH_OK;
}

bool af_catalog_is_torch_free(const struct af_catalog_wheel *wheel)
{
    return wheel->local != NULL && af_starts_with(wheel->local, "any.ptx");
}

bool af_catalog_is_fa4(const struct af_catalog_wheel *wheel)
{
    return af_starts_with(wheel->package, "flash_attn_4") ||
           af_starts_with(wheel->package, "flash_attn4");
}

const struct af_catalog_fa4_release *af_catalog_fa4(const struct af_catalog_wheel *wheel)
{
    return af_catalog_is_fa4(wheel) ? af_tables_fa4(wheel->version) : NULL;
}

bool af_catalog_has_major(struct af_words majors, int sm)
{
    char text[16];
    snprintf(text, sizeof text, "%d", sm / 10);
    return af_words_have(majors, text);
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
