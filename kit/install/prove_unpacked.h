/*
 * prove_unpacked.h: whether the extensions of packages that were unpacked load in the
 * environment, before anything is moved there. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_PROVE_UNPACKED_H
#define AF_KIT_INSTALL_PROVE_UNPACKED_H

#include "kit/install/install.h"

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
