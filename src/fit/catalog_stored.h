/*
 * catalog_stored.h: a catalog that was brought up to date, as a file: packed and
 * compressed as the embedded one is, so that loading it takes no longer.
 *
 * It starts with "AFU1" and the SHA-256 of the embedded catalog that it was made
 * from: a newer program, with a newer catalog of its own or other columns, does
 * not take it.
 */
#ifndef AF_FIT_CATALOG_STORED_H
#define AF_FIT_CATALOG_STORED_H

#include "base/text.h"
#include "fit/catalog.h"

/* Appends the file's bytes to `stored`. Fails with NO_MEMORY or LIMIT. */
enum anyflash_status af_catalog_stored_write(const struct af_catalog *catalog,
                                             struct af_text *stored,
                                             struct anyflash_error *err);

/*
 * Loads such a file; the catalog's name becomes "updated". Fails with NOT_FOUND,
 * IO, LIMIT, NO_MEMORY, DATA (damaged), or UNSUPPORTED when it was made from
 * another embedded catalog.
 */
enum anyflash_status af_catalog_stored_load(struct af_catalog *catalog, const char *path,
                                            struct anyflash_error *err);

#endif
