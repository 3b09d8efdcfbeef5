/*
 * catalog_file.h: catalogs from files.
 */
#ifndef AF_KIT_PROBE_CATALOG_FILE_H
#define AF_KIT_PROBE_CATALOG_FILE_H

#include "kit/catalog/catalog.h"

/* Runs af_catalog_parse() on the file `path`. Fails also as af_file_read() does. */
enum anyflash_status af_probe_catalog(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err);

/* Runs af_catalog_stored_parse() on the file `path`. Fails also as af_file_read() does. */
enum anyflash_status af_probe_catalog_stored(struct af_catalog *catalog, const char *path,
                                             struct anyflash_error *err);

#endif
