/*
 * catalog_list.h: makes the wheels of a catalog, from rows, from a page of releases, or from
 * names of files. Every text is checked here, once, because installers and terminals receive
 * them later.
 */
#ifndef AF_KIT_CATALOG_CATALOG_LIST_H
#define AF_KIT_CATALOG_CATALOG_LIST_H

#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_pack.h"

/* Wheels in the order in which they were added; zero-initialised but for the arena. */
struct af_catalog_list {
    struct af_arena *arena; /* of the wheels and their texts */
    struct af_intern texts;
    struct af_intern versions;
    struct af_catalog_wheel *wheels;
    size_t count;
    size_t capacity;
};

/*
 * Adds a copy of `wheel`, whose texts are copied, too. The members that are parsed from texts
 * are set here. `place` is where it was found, for errors. Fails with DATA ("'catalog' line 7,
 * field 'torch': ..."), or with LIMIT after AF_CATALOG_ROWS_MAX wheels.
 */
enum anyflash_status af_catalog_list_add(struct af_catalog_list *list,
                                         const struct af_catalog_wheel *wheel,
                                         const char *place, struct anyflash_error *err);

/* Returns the wheels, in the arena, ranked by version, and releases the list. */
const struct af_catalog_wheel *af_catalog_list_take(struct af_catalog_list *list,
                                                    size_t *count_out);

/* Releases a list whose wheels are not wanted. */
void af_catalog_list_release(struct af_catalog_list *list);

#endif
