/*
 * stand_in.h: the stand-in for flash-attn, made of anyflash's Python package. Its files come
 * with this program: in the folder above it (installed as a wheel), in its build folder, or
 * where `make install` put them.
 */
#ifndef AF_KIT_INSTALL_STAND_IN_H
#define AF_KIT_INSTALL_STAND_IN_H

#include "kit/install/install.h"

/* The version of flash-attn whose modules and functions the stand-in has. */
#define AF_STAND_IN_VERSION "2.8.3"

/*
 * Writes the wheel "flash_attn-VERSION-..." to `folder`: what `anyflash shim install` installs,
 * and anyflash's package, unless that is installed on its own. `version` is in normal form.
 * Fails with NOT_FOUND if the Python files or the libraries of this version are not there,
 * with IO, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_stand_in_make(struct af_run *run, const char *version,
                                      const char *folder, const char **path_out,
                                      struct anyflash_error *err);

#endif
