/*
 * catalog_update.h: what an update needs. A page of a repository's releases, as GitHub's API
 * returns it, becomes rows of the form of data/wheels.jsonl, which contain only what file
 * names say; the wheel check finds the rest. The updated catalog becomes a file, packed and
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

#define AF_LISTING_BYTES_MAX (48u << 20)

/* The origin of the page. */
struct af_listing_source {
    const char *source; /* name in the catalog's rows: "owner/name" */
    const char *kind;   /* "official" or "community" */
    const char *files;  /* prefix that the URL of every file must have */
};

/*
 * Appends the row of one file that is not in a release; without a URL. Returns false, and adds
 * nothing, if its name is not that of a flash-attn package's wheel.
 */
bool af_listing_add_file(const char *filename, const struct af_listing_source *source,
                         struct af_text *rows);

/*
 * Appends one row per line to `rows`, and says how many releases the page has. `name` is for
 * errors. Fails with DATA when the page is not such a list, or the URL of a file is not that of
 * a release.
 */
enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_text *rows, size_t *releases_out,
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
