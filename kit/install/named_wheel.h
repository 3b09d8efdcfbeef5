/*
 * named_wheel.h: makes the plan for a wheel that the user names.
 */
#ifndef AF_KIT_INSTALL_NAMED_WHEEL_H
#define AF_KIT_INSTALL_NAMED_WHEEL_H

#include "kit/catalog/catalog.h"
#include "kit/install/install.h"

/*
 * The plan that installs `word`, a wheel's file or URL, for run->machine. Expects the hash
 * `sha256`, or if that is NULL, the one of the URL's fragment, or that of `catalog`, which is
 * read for a URL only. A file at a URL is downloaded to the cache. Reports requirements that
 * this machine does not meet by run->progress. Fails with ARGUMENT if `word` is no wheel, and
 * as reading it does; *hint_out then says what to do, or is NULL.
 */
enum anyflash_status af_named_wheel_plan(struct af_run *run, const char *word,
                                         const char *sha256, const struct af_catalog *catalog,
                                         struct af_plan *plan, const char **hint_out,
                                         struct anyflash_error *err);

#endif
