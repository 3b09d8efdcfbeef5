/*
 * own_package.h: anyflash's Python package, which comes with this program: in the
 * folder above it (installed as a wheel), in its build folder, or where `make install`
 * put it. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_OWN_PACKAGE_H
#define AF_KIT_INSTALL_OWN_PACKAGE_H

#include "kit/install/stage.h"

/*
 * Writes the package into the stage as an installer would unpack its wheel: Python files,
 * the two libraries, this program, metadata and RECORD. Uses no network and neither uv nor
 * pip. Fails with NOT_FOUND if the Python files or the libraries of this version are not
 * there, with IO, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_own_package_stage(struct af_stage *stage, struct anyflash_error *err);

#endif
