/*
 * fetch.h: gets the exact file of a step, checked by its hash, onto this machine. For
 * install.c and `config --write`.
 */
#ifndef AF_KIT_INSTALL_FETCH_H
#define AF_KIT_INSTALL_FETCH_H

#include "kit/base/sha256.h"
#include "kit/install/install.h"

struct af_fetched {
    const char *path;
    const char *copy; /* of af_fetch_copy(); else NULL */
    char sha256[AF_SHA256_HEX_BYTES];
    bool ours; /* the file is in our cache: remove it after the installation */
};

/*
 * Gets the wheel: the user's own file, a file from run->from, or one that is downloaded to
 * `folder` (NULL: our cache). Fails with DATA if a hash is expected and the file has another
 * one.
 */
enum anyflash_status af_fetch(struct af_run *run, const struct af_step_wheel *wheel,
                              const char *folder, struct af_fetched *fetched_out,
                              struct anyflash_error *err);

/*
 * The same for a file that is to be installed: copies it to `folder`, which only this user may
 * write to, reading it once while it computes the hash. Whoever changes the file at
 * fetched->path later does not change fetched->copy.
 */
enum anyflash_status af_fetch_copy(struct af_run *run, const struct af_step_wheel *wheel,
                                   const char *folder, struct af_fetched *fetched_out,
                                   struct anyflash_error *err);

#endif
