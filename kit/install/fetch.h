/*
 * fetch.h: the exact file of a step, on this machine and hashed. Private to this
 * module.
 */
#ifndef AF_KIT_INSTALL_FETCH_H
#define AF_KIT_INSTALL_FETCH_H

#include "kit/base/sha256.h"
#include "kit/install/install.h"

struct af_fetched {
    const char *path;
    char sha256[AF_SHA256_HEX_BYTES];
    bool ours; /* lies in our cache: remove it once it is installed */
};

/*
 * The wheel as the user's own file, from run->from, or downloaded to `folder`
 * (NULL: our cache). With an expected hash another one fails with DATA.
 */
enum anyflash_status af_fetch(struct af_run *run, const struct af_step_wheel *wheel,
                              const char *folder, struct af_fetched *fetched_out,
                              struct anyflash_error *err);

#endif
