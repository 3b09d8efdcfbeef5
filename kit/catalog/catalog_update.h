/*
 * catalog_update.h: what an update needs. A page of a repository's releases, as GitHub's API
 * returns it, becomes wheels of which only what their file names say is known; the wheel check
 * finds the rest. The updated catalog becomes a file, packed and
 * compressed like the embedded one so that it loads equally fast: "AFU1", the SHA-256 of the
 * embedded catalog that it was made from, the catalog. A program whose embedded catalog or
 * columns differ rejects it.
 *
 * Source: GitHub REST API, "List releases": an array of releases, each with
 * tag_name and assets, each of those with name, state, browser_download_url and,
 * for files uploaded since June 2025, digest ("sha256:HEX").
 */
#ifndef AF_KIT_CATALOG_CATALOG_UPDATE_H
#define AF_KIT_CATALOG_CATALOG_UPDATE_H

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_list.h"

#define AF_LISTING_BYTES_MAX (48u << 20)

/* The origin of the page. */
struct af_listing_source {
    const char *source; /* name in the catalog: "owner/name" */
    const char *kind;   /* "official" or "community" */
    const char *files;  /* prefix that the URL of every file must have */
};

/*
 * Adds one file that is not in a release; without a URL. Adds nothing if its name is not that
 * of a flash-attn package's wheel. Fails as af_catalog_list_add() does.
 */
enum anyflash_status af_listing_add_file(const char *filename,
                                         const struct af_listing_source *source,
                                         struct af_catalog_list *list,
                                         struct anyflash_error *err);

/*
 * Adds the wheels of a page, and says how many releases it has. `name` is for errors. Fails
 * with DATA when the page is not such a list, or the URL of a file is not that of a release,
 * or as af_catalog_list_add() does.
 */
enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_catalog_list *list, size_t *releases_out,
                                     struct anyflash_error *err);

/* Appends the file's bytes to `stored`. Fails with LIMIT. */
enum anyflash_status af_catalog_stored_write(const struct af_catalog *catalog,
                                             struct af_text *stored,
                                             struct anyflash_error *err);

/*
 * Loads the bytes of such a file; `name` is its name for errors. The catalog
 * is then called "updated". Fails with DATA (damaged), or UNSUPPORTED
 * when it was made from another embedded catalog. `bytes` is not needed
 * afterwards.
 */
enum anyflash_status af_catalog_stored_parse(struct af_catalog *catalog, struct af_span bytes,
                                             const char *name, struct anyflash_error *err);

#endif
