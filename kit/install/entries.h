/*
 * entries.h: what an installation replaces: from the files that were unpacked,
 * those that are there and those that others claim, the largest pieces that can
 * be moved as a whole. Private to this module.
 */
#ifndef AF_KIT_INSTALL_ENTRIES_H
#define AF_KIT_INSTALL_ENTRIES_H

#include "kit/install/distribution.h"
#include "kit/install/journal.h"
#include "kit/system/progress.h"

/*
 * Entries for the distributions that lie unpacked in `fresh`, over `site`. What
 * the same distributions have in `site` goes, whatever its version. A folder
 * that other distributions share is entered only as far as needed; what nobody
 * claims and is in the way goes aside with the rest, and talk->say tells it.
 *
 * Fails with UNSUPPORTED when something cannot be replaced safely (installed by
 * conda or setup.py, a file of another distribution is in the way), DATA, LIMIT,
 * IO or NO_MEMORY.
 */
enum anyflash_status af_entries_find(struct af_arena *arena, const char *site,
                                     const char *fresh, const struct af_progress *progress,
                                     struct af_entry **entries_out, size_t *count_out,
                                     struct anyflash_error *err);

#endif
