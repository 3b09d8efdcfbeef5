/*
 * fetch.h: gets the exact, hashed file of a step onto this machine. Private to
 * install.c, fetch.c and stage.c.
 */
#ifndef AF_KIT_INSTALL_FETCH_H
#define AF_KIT_INSTALL_FETCH_H

#include "kit/base/sha256.h"
#include "kit/install/install.h"

struct af_fetched {
    const char *path;
    char sha256[AF_SHA256_HEX_BYTES];
    bool ours; /* it is in our cache: remove it once it is installed */
};

/*
 * The wheel: the user's own file, a file from run->from, or downloaded to `folder`
 * (NULL: our cache). If a hash is expected, a file with another one fails with DATA.
 */
enum anyflash_status af_fetch(struct af_run *run, const struct af_step_wheel *wheel,
                              const char *folder, struct af_fetched *fetched_out,
                              struct anyflash_error *err);

#endif
