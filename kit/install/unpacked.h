/*
 * unpacked.h: whether an installer unpacked only members of the wheels that were checked. Zip
 * readers disagree about some archives, so a list of members that was checked does not say
 * what another program writes. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_UNPACKED_H
#define AF_KIT_INSTALL_UNPACKED_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* What may be in the tree; empty when zero-initialised. Texts are in the arena of the calls. */
struct af_unpacked {
    const char **allowed; /* on the heap */
    size_t count;
    size_t capacity;
};

/*
 * Allows the members of the wheel at `path`, and what installers write for it: the scripts of
 * its entry points, RECORD, INSTALLER and similar files. Fails as af_wheel_archive_open(), or
 * with DATA if its entry points cannot be read.
 */
enum anyflash_status af_unpacked_allow(struct af_unpacked *unpacked, const char *path,
                                       struct af_arena *arena, struct anyflash_error *err);

/*
 * Looks at every file below `tree`, the folder of --prefix. Fails with DATA, naming the first
 * file that is not allowed, or IO, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_unpacked_check(struct af_unpacked *unpacked, const char *tree,
                                       struct af_arena *arena, struct anyflash_error *err);

void af_unpacked_release(struct af_unpacked *unpacked);

#endif
