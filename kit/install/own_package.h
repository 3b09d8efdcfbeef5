/*
 * own_package.h: anyflash's Python package, which comes with this program: in the
 * folder above it (installed as a wheel), in its build folder, or where `make install`
 * put it; and the stand-in for flash-attn that is made of it.
 */
#ifndef AF_KIT_INSTALL_OWN_PACKAGE_H
#define AF_KIT_INSTALL_OWN_PACKAGE_H

#include "kit/install/stage.h"

/* The version of flash-attn whose modules and functions the stand-in has. */
#define AF_OWN_PACKAGE_STAND_IN "2.8.3"

/*
 * For install.c: writes the package into the stage as an installer would unpack its wheel:
 * Python files, the two libraries, this program, metadata and RECORD; with `stand_in`, what the
 * wheel of af_own_package_stand_in() contains. Uses no network and neither uv nor pip. Fails
 * with NOT_FOUND if the Python files or the libraries of this version are not there, with IO
 * or LIMIT.
 */
enum anyflash_status af_own_package_stage(struct af_stage *stage, bool stand_in,
                                          struct anyflash_error *err);

/*
 * Whether the Python files of this version are there: without them, as where the program was
 * copied alone, af_own_package_stage() fails with NOT_FOUND. Scratch memory comes from `arena`.
 */
bool af_own_package_is_here(struct af_arena *arena);

/*
 * Writes the wheel "flash_attn-VERSION-..." to `folder`: what `anyflash shim install` installs,
 * and anyflash's package, unless that is installed on its own. `version` is in normal form.
 * Fails as af_own_package_stage().
 */
enum anyflash_status af_own_package_stand_in(struct af_run *run, const char *version,
                                             const char *folder, const char **path_out,
                                             struct anyflash_error *err);

#endif
