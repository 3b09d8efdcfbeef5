/*
 * checked_wheel.h: the one file that `install`, `run` and `config` give to an installer: got,
 * compared with its hash, looked through for what it contains beside its package, and written
 * anew from the members that were looked at.
 */
#ifndef AF_KIT_INSTALL_CHECKED_WHEEL_H
#define AF_KIT_INSTALL_CHECKED_WHEEL_H

#include "kit/install/fetch.h"
#include "kit/proof/inspect_target.h"

/* Texts in the run's arena. */
struct af_checked_wheel {
    struct af_fetched fetched;        /* the file of the step */
    const char *path;                 /* what installers get */
    char sha256[AF_SHA256_HEX_BYTES]; /* of that file */
    const char *version;              /* of its METADATA; NULL: it has none */
    const char *origin;               /* where it came from, without secrets */
    const char *refusal;              /* why it is not to be installed; or NULL */
    const char *hint;
};

/*
 * Gets the wheel of a step into `folder`, which only this user may write to. The new archive
 * has the members of the file and nothing else, so that no program can read another archive
 * from it; with `keeps_file` it is the file itself, for installers that compare its hash. Its
 * name is that of the file, or, if METADATA lacks the local part of the version and
 * `plain_name` is given, the name without it: installers compare both. Fails as
 * af_fetch_copy(), or with DATA if an archive is not well-formed; a refusal is no failure.
 */
enum anyflash_status af_checked_wheel_make(struct af_run *run,
                                           const struct af_step_wheel *wheel,
                                           const char *folder, bool keeps_file, bool plain_name,
                                           struct af_checked_wheel *out,
                                           struct anyflash_error *err);

/*
 * Sets *objection_out to why an extension of the wheel at `path` would not load with `torch`
 * ("2.8.0+cu128"; NULL: the installed one); NULL: all load, or that is not known.
 */
enum anyflash_status af_checked_wheel_prove(struct af_run *run, const char *path,
                                            const char *torch, const char **objection_out,
                                            struct anyflash_error *err);

#endif
