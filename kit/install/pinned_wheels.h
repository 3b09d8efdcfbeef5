/*
 * pinned_wheels.h: the files of the wheels that a configuration pins (config/config.h): those
 * that are here, or downloaded, hashed and proved before anything in the project changes; then
 * put into the project's folder of wheels.
 */
#ifndef AF_KIT_INSTALL_PINNED_WHEELS_H
#define AF_KIT_INSTALL_PINNED_WHEELS_H

#include "kit/config/config.h"
#include "kit/install/install.h"
#include "kit/proof/wheel_content.h"

/* The caller sets the first group. Empty when zero-initialised. Uses the lock's arena. */
struct af_pinned_wheels {
    struct af_config_lock *lock;
    struct af_run *run; /* its arena, progress and options; neither state nor site is used */
    const char *project;
    const char *from; /* a folder to take wheels from; or NULL */
    bool is_here;     /* the pins are for this machine, as it was probed */

    const char *paths[AF_PINS_MAX]; /* the file of each pin; NULL: there is none here */
    bool is_fetched[AF_PINS_MAX];   /* it is in the cache */
    const char *hint;               /* what to do about a failure; or NULL */
};

/*
 * Looks for the wheels in `from` and in the project, and sets the facts of their pins. Fails
 * with DATA if a file is not that of its pin, or as reading it does.
 */
enum anyflash_status af_pinned_wheels_find(struct af_pinned_wheels *wheels,
                                           struct anyflash_error *err);

/*
 * Gets the file of every pin that needs one and has none, into the cache, and sets the pin's
 * facts from it. Fails with DATA
 * if a file is not what the catalog or its name says, UNSUPPORTED if it does not load on the
 * pin's machine, or as af_fetch(); wheels->hint then says what to do.
 */
enum anyflash_status af_pinned_wheels_fetch(struct af_pinned_wheels *wheels,
                                            struct anyflash_error *err);

/* Fails with UNSUPPORTED if a wheel that is here is refused because of what it contains. */
enum anyflash_status af_pinned_wheels_refuse(const struct af_pinned_wheels *wheels,
                                             struct af_content_refusal *refusal_out,
                                             struct anyflash_error *err);

/* Puts the wheels into the project; with `writes` false only notes what would be done. */
enum anyflash_status af_pinned_wheels_place(struct af_pinned_wheels *wheels, bool writes,
                                            struct anyflash_error *err);

/* Removes from the cache what was fetched. */
void af_pinned_wheels_discard(const struct af_pinned_wheels *wheels);

#endif
