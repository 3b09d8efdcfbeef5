/*
 * replaced_paths.h: which files and folders an installation replaces. From the unpacked files,
 * the installed ones and those of other packages it finds the largest folders that can be moved
 * as a whole. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_REPLACED_PATHS_H
#define AF_KIT_INSTALL_REPLACED_PATHS_H

#include "kit/install/journal.h"
#include "kit/install/record.h"
#include "kit/system/progress.h"

/*
 * Finds the entries for the distributions that are unpacked in `fresh`, to be installed in
 * `site`. Files of the same distributions in `site` are replaced, whatever their version.
 * Folders that other distributions share are split only as far as needed. A file in the way
 * that belongs to no package is moved aside with the rest, and `progress` reports it.
 *
 * Fails with UNSUPPORTED when something cannot be replaced safely (installed by conda or
 * setup.py, a file of another distribution is in the way), DATA, LIMIT, IO or NO_MEMORY.
 */
enum anyflash_status af_replaced_paths_find(struct af_arena *arena, const char *site,
                                            const char *fresh,
                                            const struct af_progress *progress,
                                            struct af_entry **entries_out, size_t *count_out,
                                            struct anyflash_error *err);

#endif
