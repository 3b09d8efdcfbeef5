/*
 * unpacked.h: whether an installer unpacked only members of the wheels that were checked. Zip
 * readers disagree about some archives, so a list of members that was checked does not say
 * what another program writes. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_UNPACKED_H
#define AF_KIT_INSTALL_UNPACKED_H

#include "kit/system/file.h"

/*
 * Adds to `allowed` the members of the wheel at `path`, and what installers write for it: the
 * scripts of its entry points, RECORD, INSTALLER and similar files. Fails as
 * af_wheel_archive_open(), or with DATA if its entry points cannot be read.
 */
enum anyflash_status af_unpacked_allow(struct af_file_names *allowed, const char *path,
                                       struct af_arena *arena, struct anyflash_error *err);

/*
 * Looks at every file below `tree`, the folder of --prefix. Fails with DATA, naming the first
 * file that is not allowed, or IO, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_unpacked_check(struct af_file_names *allowed, const char *tree,
                                       struct af_arena *arena, struct anyflash_error *err);

#endif
