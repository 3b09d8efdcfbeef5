/*
 * diff.h: what changes in a file, as a unified diff.
 */
#ifndef AF_KIT_CLI_DIFF_H
#define AF_KIT_CLI_DIFF_H

#include "kit/base/text.h"

/*
 * Appends the unified diff from `old` to `new_text` with three lines of context;
 * nothing when they are equal. `name` stands in the head. Long differences that
 * would take too much to compare line by line appear as removed and added.
 */
enum anyflash_status af_diff(struct af_text *out, const char *name, struct af_span old,
                             struct af_span new_text, struct anyflash_error *err);

#endif
