/*
 * index_page.h: finds a file in a project's page of a package index.
 *
 * Source: PEP 503 (HTML: links whose text is the file name) and PEP 691 (JSON:
 * "files", each with filename, url and hashes).
 */
#ifndef AF_KIT_CATALOG_INDEX_PAGE_H
#define AF_KIT_CATALOG_INDEX_PAGE_H

#include "engine/base/mem.h"

#define AF_INDEX_PAGE_BYTES_MAX (32u << 20)

/* The value of the Accept header for such a page. */
#define AF_INDEX_PAGE_ACCEPT "application/vnd.pypi.simple.v1+json, text/html;q=0.5"

/*
 * Whether the page lists the file `filename` (decoded, with '+'). *sha256_out: its
 * hash as 64 digits in `arena`; NULL: the page has none. `name` is for errors.
 * Fails with DATA for a page that starts as JSON and is not a project's page, or
 * NO_MEMORY.
 */
enum anyflash_status af_index_page_find(struct af_span page, const char *name,
                                        const char *filename, struct af_arena *arena,
                                        bool *found_out, const char **sha256_out,
                                        struct anyflash_error *err);

#endif
