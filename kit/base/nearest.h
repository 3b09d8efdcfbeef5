/*
 * nearest.h: guesses which known word a mistyped word stands for.
 */
#ifndef AF_KIT_BASE_NEAREST_H
#define AF_KIT_BASE_NEAREST_H

#include "engine/base/base.h"

/*
 * The word with the smallest edit distance from `typed` (changed, added,
 * removed or swapped letters), or else the first that starts with `typed`, of at
 * least 3 letters; NULL if none is near (more than a third of the letters, at least 1).
 */
const char *af_nearest(const char *typed, const char *const *words, size_t count);

#endif
