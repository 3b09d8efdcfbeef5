/*
 * build_fix.h: commands that bring what a build needs from the system.
 */
#ifndef AF_KIT_BUILD_OFFER_BUILD_FIX_H
#define AF_KIT_BUILD_OFFER_BUILD_FIX_H

#include "kit/machine/machine.h"

/* The package manager's command for a C++ compiler. Static text. */
const char *af_fix_compiler(const struct af_machine *machine);

/* That for the headers of the environment's Python; in the arena. */
const char *af_fix_python_headers(const struct af_machine *machine, struct af_arena *arena);

#endif
