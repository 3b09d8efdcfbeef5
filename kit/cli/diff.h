/*
 * diff.h: shows the changes of a file as a unified diff.
 */
#ifndef AF_KIT_CLI_DIFF_H
#define AF_KIT_CLI_DIFF_H

#include "kit/base/text.h"

/*
 * Appends the unified diff from `old` to `new_text` with three lines of
 * context; nothing if they are equal. `name` is shown in the header. If a
 * line-by-line comparison would take too long, all lines appear as removed and
 * added.
 */
enum anyflash_status af_diff(struct af_text *out, const char *name, struct af_span old,
                             struct af_span new_text, struct anyflash_error *err);

#endif
