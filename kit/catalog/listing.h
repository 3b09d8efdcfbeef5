/*
 * listing.h: wheels from a page of a repository's releases, as GitHub's API returns
 * it, in the form of data/wheels.jsonl. Only what file names say is known of them; a
 * proof shows the rest.
 *
 * Source: GitHub REST API, "List releases": an array of releases, each with tag_name
 * and assets, each of those with name, state and browser_download_url.
 */
#ifndef AF_KIT_CATALOG_LISTING_H
#define AF_KIT_CATALOG_LISTING_H

#include "kit/base/text.h"

#define AF_LISTING_BYTES_MAX (48u << 20)

/* Where the page comes from. */
struct af_listing_source {
    const char *source; /* as the catalog's rows name it: "owner/name" */
    const char *kind;   /* "official" or "community" */
    const char *files;  /* what the address of every file must begin with */
};

struct af_listing_counts {
    size_t releases;
    size_t wheels;  /* rows appended */
    size_t skipped; /* other projects' wheels, and names that are no wheel's */
};

/*
 * Appends one row a line to `rows` and adds to *counts. `name` is for errors. Fails
 * with DATA when the page is not such a list, or a file is not at the address of a
 * release.
 */
enum anyflash_status af_listing_read(struct af_span page, const char *name,
                                     const struct af_listing_source *source,
                                     struct af_text *rows, struct af_listing_counts *counts,
                                     struct anyflash_error *err);

#endif
