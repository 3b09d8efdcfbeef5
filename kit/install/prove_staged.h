/*
 * prove_staged.h: proves the extensions that were unpacked against the environment,
 * before any of them is moved there. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_PROVE_STAGED_H
#define AF_KIT_INSTALL_PROVE_STAGED_H

#include "kit/install/install.h"

#define AF_LOADABLE_MAX 64

/* Texts in the run's arena. */
struct af_install_proved {
    const char *refusal; /* a sentence; NULL: none */
    /* What was proved to load, once it is in place: words for af_verify_extensions(). */
    const char *loadable[AF_LOADABLE_MAX];
    size_t loadable_count;
};

/*
 * Proves each extension below `fresh`, of a wheel that says it was built for
 * `stated_torch` ("2.8"; NULL: it says nothing), and reports each outcome by
 * run->progress. With `strict` one extension that would not load is a refusal; else
 * only if none would load, or none of those that use torch: third-party packages
 * ship libraries for several versions of their dependencies. An unknown answer is
 * reported and is not a refusal.
 */
enum anyflash_status af_install_prove(struct af_run *run, const char *fresh, bool strict,
                                      const char *stated_torch,
                                      struct af_install_proved *proved_out,
                                      struct anyflash_error *err);

#endif
