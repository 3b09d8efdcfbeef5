/*
 * nearest.h: which known word was probably meant.
 */
#ifndef AF_KIT_CLI_NEAREST_H
#define AF_KIT_CLI_NEAREST_H

#include "engine/base/base.h"

/*
 * The word with the fewest letters to change, add, drop or swap from `typed`,
 * or NULL when none is near (more than a third of the letters, at least 1).
 */
const char *af_nearest(const char *typed, const char *const *words, size_t count);

#endif
