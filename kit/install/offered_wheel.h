/*
 * offered_wheel.h: puts one wheel into a folder from which pip or uv can take it
 * (--find-links): a published one, checked and proved.
 */
#ifndef AF_KIT_INSTALL_OFFERED_WHEEL_H
#define AF_KIT_INSTALL_OFFERED_WHEEL_H

#include "kit/base/sha256.h"
#include "kit/install/install.h"
#include "kit/proof/inspect_target.h"

/* Texts in the run's arena. */
struct af_offered_wheel {
    const char *path;
    const char *version; /* of its metadata, which installers compare with its file name */
    char sha256[AF_SHA256_HEX_BYTES];
    const char *refusal; /* why it is not offered; or NULL */
    const char *hint;
};

/*
 * Gets the wheel into `folder`: its hash must be the expected one, it must contain only its
 * package, and its extensions must load with `torch` ("2.8.0+cu128"; NULL: the installed one).
 * The file gets the name that agrees with its metadata. Fails as af_fetch_copy(); a refusal is
 * not a failure.
 */
enum anyflash_status af_offered_wheel_make(struct af_run *run,
                                           const struct af_step_wheel *wheel,
                                           const char *folder, const char *torch,
                                           struct af_offered_wheel *out,
                                           struct anyflash_error *err);

/*
 * Sets *objection_out to why an extension of `target` would not load with `torch`; NULL: all
 * load, or that is not known.
 */
enum anyflash_status af_offered_wheel_prove(struct af_run *run,
                                            struct af_inspect_target *target, const char *torch,
                                            const char **objection_out,
                                            struct anyflash_error *err);

#endif
