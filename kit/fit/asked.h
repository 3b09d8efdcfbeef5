/*
 * asked.h: whether the package and the version that a user asked for exist.
 */
#ifndef AF_KIT_FIT_ASKED_H
#define AF_KIT_FIT_ASKED_H

#include "kit/fit/fit.h"

/*
 * Fails with ARGUMENT if options->package or options->version is given and the catalog has no
 * such wheel, whoever published it; then *hint_out, in `arena`, names what exists. A release of
 * flash-attn 2 without wheels exists, too: it can be built.
 */
enum anyflash_status af_fit_check_asked(const struct af_catalog *catalog,
                                        const struct af_fit_options *options,
                                        struct af_arena *arena, const char **hint_out,
                                        struct anyflash_error *err);

#endif
