/*
 * preflight.h: whether a build can start here: the verdicts of the rung (fit/fit.h)
 * for what is asked, and those that only the machine itself can answer, because
 * a program has to be run or our own cache to be looked at. Nothing is changed.
 */
#ifndef AF_KIT_BUILD_PREFLIGHT_H
#define AF_KIT_BUILD_PREFLIGHT_H

#include "kit/build/build.h"
#include "kit/fit/fit.h"

#define AF_BUILD_CHECKS_MAX 32

struct af_build_check {
    struct af_prerequisite rows[AF_BUILD_CHECKS_MAX];
    size_t row_count;
    size_t missing_count; /* rows that say no */
    bool can_start;       /* no row says no */
    /* The first row that no build gets past: all but memory and temporary-folder; or NULL. */
    const struct af_prerequisite *obstacle;
};

/* What the selection needs, for the verdicts about room; 0: a slim build's. */
struct af_build_resources {
    int64_t peak_bytes;
    int64_t disk_bytes;
};

/*
 * Asks for everything; a program that does not answer is an answer. `targets`
 * of the selection stand in place of the GPUs, where it has some. Texts live in
 * build->arena. Fails with NO_MEMORY, or with INTERNAL.
 */
enum anyflash_status af_build_check(struct af_build *build, struct af_build_resources resources,
                                    struct af_build_check *check_out,
                                    struct anyflash_error *err);

#endif
