/*
 * project_fix.h: changes of text files: replaced bytes, the text that results, and the
 * difference as `git apply` and `patch` read it.
 */
#ifndef AF_KIT_PROJECT_PROJECT_FIX_H
#define AF_KIT_PROJECT_PROJECT_FIX_H

#include "kit/base/text.h"

/* The bytes from `start` to `end` become `text`. */
struct af_project_edit {
    size_t start;
    size_t end;
    const char *text;
};

/*
 * Sorts the edits by their place; of edits that overlap only the first stays, and of insertions
 * at the same place all. Returns how many are left. The other functions take such lists.
 */
size_t af_project_edits_order(struct af_project_edit *edits, size_t count);

/* Appends `old` with the edits to `out`. */
void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out);

/* Appends the edits of the file `path` as a unified diff with up to two lines around each. */
void af_project_diff(const char *path, struct af_span old, const struct af_project_edit *edits,
                     size_t count, struct af_text *out);

#endif
