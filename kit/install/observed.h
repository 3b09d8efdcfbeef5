/*
 * observed.h: lets another program, such as pip, change one package, and records what it did as
 * if anyflash had done it, so that `anyflash undo` takes it back. Other packages that the
 * program changes are not recorded.
 */
#ifndef AF_KIT_INSTALL_OBSERVED_H
#define AF_KIT_INSTALL_OBSERVED_H

#include "kit/install/install.h"
#include "kit/install/record.h"

/* Zero-initialised: nothing is observed. Texts in the run's arena. */
struct af_observed {
    const char *package; /* normalised: "flash-attn" */
    struct af_operation operation;
    struct af_distribution before; /* folder NULL: not installed */
    struct af_distribution after;
    bool changed; /* set by af_observed_end() */
};

/*
 * Before the program starts: keeps the files of the installed package, by links where possible.
 * `title` names the change in the journal. run->site must be locked and run->state open.
 */
enum anyflash_status af_observed_begin(struct af_run *run, const char *package,
                                       const char *title, struct af_observed *observed,
                                       struct anyflash_error *err);

/*
 * After it ended, however it did: records the change, or discards what was kept if the package
 * is the same as before. Does nothing if `observed` was not begun.
 */
enum anyflash_status af_observed_end(struct af_run *run, struct af_observed *observed,
                                     struct anyflash_error *err);

#endif
