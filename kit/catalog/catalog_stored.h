/*
 * catalog_stored.h: an updated catalog as a file, packed and compressed like the
 * embedded one so that it loads equally fast.
 *
 * It starts with "AFU1" and the SHA-256 of the embedded catalog that it was made
 * from: a program whose embedded catalog or columns differ rejects it.
 */
#ifndef AF_KIT_CATALOG_CATALOG_STORED_H
#define AF_KIT_CATALOG_CATALOG_STORED_H

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"

/* Appends the file's bytes to `stored`. Fails with NO_MEMORY or LIMIT. */
enum anyflash_status af_catalog_stored_write(const struct af_catalog *catalog,
                                             struct af_text *stored,
                                             struct anyflash_error *err);

/*
 * Loads the bytes of such a file; `name` is its name for errors. The catalog's
 * name becomes "updated". Fails with NO_MEMORY, DATA (damaged), or UNSUPPORTED
 * when it was made from another embedded catalog. `bytes` is not needed
 * afterwards.
 */
enum anyflash_status af_catalog_stored_parse(struct af_catalog *catalog, struct af_span bytes,
                                             const char *name, struct anyflash_error *err);

#endif
