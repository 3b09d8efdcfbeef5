/*
 * package_changes.h: what else moves when torch does.
 */
#ifndef AF_KIT_FIT_PACKAGE_CHANGES_H
#define AF_KIT_FIT_PACKAGE_CHANGES_H

#include "kit/fit/rung.h"

/*
 * The moves of putting torch `version` (public, "2.9.1"), build `cuda`
 * ("cu128"), into the environment of the first machine: torch itself, packages
 * that are released with it, and those whose requirement breaks.
 */
void af_fit_package_changes_of_torch(struct af_rung_context *context, const char *version,
                                     const char *cuda);

#endif
