/*
 * unpacked.h: checks what an installer unpacked before any of it is moved into the environment:
 * whether it is only members of the wheels that were checked (zip readers disagree about some
 * archives, so a list of members that was checked does not say what another program writes),
 * and whether its extensions load there. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_UNPACKED_H
#define AF_KIT_INSTALL_UNPACKED_H

#include "kit/install/install.h"
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

#define AF_LOADABLE_MAX 64

/* Texts in the run's arena. */
struct af_install_proved {
    const char *refusal; /* one sentence; NULL: not refused */
    /*
     * The extensions that are proved to load once they are in place, as words for
     * af_verify_extensions().
     */
    const char *loadable[AF_LOADABLE_MAX];
    size_t loadable_count;
};

/*
 * Proves each extension below `fresh` and reports each outcome by run->progress. `stated_torch`
 * is the torch that the wheel says it was built for ("2.8"; NULL: it does not say). With
 * `strict` the installation is refused if one extension would not load; else only if none would
 * load, or none of those that use torch, because third-party packages ship libraries for
 * several versions of their dependencies. An unknown answer is reported and is not a refusal.
 */
enum anyflash_status af_install_prove(struct af_run *run, const char *fresh, bool strict,
                                      const char *stated_torch,
                                      struct af_install_proved *proved_out,
                                      struct anyflash_error *err);

#endif
