/*
 * catalog_file.h: catalogs from files.
 */
#ifndef AF_KIT_PROBE_CATALOG_FILE_H
#define AF_KIT_PROBE_CATALOG_FILE_H

#include "kit/catalog/catalog.h"

/* af_catalog_parse() of the file `path`. Fails as af_file_read() does, too. */
enum anyflash_status af_probe_catalog(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err);

/* af_catalog_stored_parse() of the file `path`. Fails as af_file_read() does, too. */
enum anyflash_status af_probe_catalog_stored(struct af_catalog *catalog, const char *path,
                                             struct anyflash_error *err);

#endif
