/*
 * listing.h: converts a page of a repository's releases, as GitHub's API returns
 * it, to the form of data/wheels.jsonl. Rows contain only what file names say;
 * the wheel check finds the rest.
 *
 * Source: GitHub REST API, "List releases": an array of releases, each with
 * tag_name and assets, each of those with name, state, browser_download_url and,
 * for files uploaded since June 2025, digest ("sha256:HEX").
 */
#ifndef AF_KIT_CATALOG_LISTING_H
#define AF_KIT_CATALOG_LISTING_H

#include "engine/base/mem.h"
#include "kit/base/text.h"

#define AF_LISTING_BYTES_MAX (48u << 20)

/* The origin of the page. */
struct af_listing_source {
    const char *source; /* name in the catalog's rows: "owner/name" */
    const char *kind;   /* "official" or "community" */
    const char *files;  /* prefix that the URL of every file must have */
};

struct af_listing_counts {
    size_t releases;
    size_t wheels;  /* rows appended */
    size_t skipped; /* wheels of other projects, and names that are not wheel names */
};

/*
 * Appends the row of one file that is not in a release; without a URL. Returns false, and adds
 * nothing, if its name is not that of a flash-attn package's wheel. The caller checks
 * rows->failed.
 */
bool af_listing_add_file(const char *filename, const struct af_listing_source *source,
                         struct af_text *rows);

/*
 * Appends one row per line to `rows` and adds to *counts. `name` is for errors.
 * Fails with DATA when the page is not such a list, or the URL of a file is not
 * that of a release.
 */
enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_text *rows, struct af_listing_counts *counts,
                                     struct anyflash_error *err);

#endif
