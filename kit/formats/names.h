/*
 * names.h: names of distributions as PEP 503 compares them.
 */
#ifndef AF_KIT_FORMATS_NAMES_H
#define AF_KIT_FORMATS_NAMES_H

#include "engine/base/base.h"

/*
 * Writes the normalised form of `name`: lower case, every run of '-', '_' and
 * '.' one '-'. False, and an empty buffer, when it does not fit `size_bytes`.
 */
bool af_name_normalise(struct af_span name, char *buffer, size_t size_bytes);

/* Whether `name` normalises to `normalised`. */
bool af_name_is(struct af_span name, const char *normalised);

#endif
