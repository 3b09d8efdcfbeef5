/*
 * published.h: which releases of torch and flash-attn the Python index has, and from which day
 * on: what an installer can find under a version. Source: data/index_releases.tsv.
 */
#ifndef AF_KIT_PROJECT_PUBLISHED_H
#define AF_KIT_PROJECT_PUBLISHED_H

#include "engine/base/base.h"

/*
 * Whether the index has this version of "torch" or "flash-attn"; a local version ("+cu126") is
 * ignored. UNKNOWN for other packages, what is no version, and versions newer than the table.
 */
enum af_answer af_published_has(const char *package, const char *version);

/*
 * The releases that satisfy `specifier`, from the newest on: the first for `nth` 0; NULL if
 * there are fewer.
 */
const char *af_published_nth(const char *package, const char *specifier, size_t nth);

/* The day of the release, "2026-10-14"; "" if it is not in the table. */
const char *af_published_day(const char *package, const char *version);

#endif
