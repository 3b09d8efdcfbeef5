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
 * Appends `old` with the edits, in any order, to `out`. Of edits that overlap only the first in
 * the text is made.
 */
void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out);

/*
 * Appends a unified diff from `old` to `made`, with up to two lines around each change; nothing
 * if they are equal.
 */
void af_project_diff(const char *path, struct af_span old, struct af_span made,
                     struct af_text *out);

#endif
