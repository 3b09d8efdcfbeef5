/*
 * admission.h: which waiting compiler may start now. Pure: numbers in, a
 * decision with its reason out.
 *
 * A compiler counts with its predicted peak, or with what it already uses if
 * that is more. Starting a small compiler may delay a large one that waits, so
 * there are eight policies: longest or largest first; hold memory for the first
 * in line or not ("EASY backfilling": Lifka 1995, The ANL/IBM SP Scheduling
 * System); let peaks overlap in time or not (deadlock.h). Every policy is
 * simulated to the end of the build with the predictions, and the one that
 * finishes first decides. At least one compiler always runs, however large,
 * because otherwise the build could not continue.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_ADMISSION_H
#define AF_KIT_COMPILE_GOVERNOR_ADMISSION_H

#include "engine/base/base.h"

#define AF_ADMIT_JOBS_MAX 512
#define AF_ADMIT_RISE 0.6 /* share of its time after which a compiler has reached its peak */

enum af_admit_state { AF_ADMIT_WAITING, AF_ADMIT_RUNNING };

struct af_admit_job {
    enum af_admit_state state;
    uint64_t need_bytes;     /* predicted peak; after the peak: the rest of the run */
    uint64_t padded_bytes;   /* need_bytes with a margin while the prediction is unconfirmed */
    uint64_t tail_bytes;     /* what a compiler with `rises` needs after its peak */
    uint64_t resident_bytes; /* used now; 0 while it waits */
    double seconds;          /* predicted, from start to end */
    double elapsed;          /* how much of `seconds` is done */
    bool rises;              /* memory grows evenly up to AF_ADMIT_RISE of `seconds` */
    bool paused;
    bool alone; /* must run with nothing beside it: it ran out of memory before */
};

struct af_admit_limits {
    uint64_t budget_bytes; /* for all compilers together */
    unsigned slots;        /* compilers that work at a time; 0 counts as 1 */
    uint64_t growth_bytes; /* how much each may grow until the next decision */
};

enum af_admit_why {
    AF_ADMIT_NOW,        /* one may start */
    AF_ADMIT_NOTHING,    /* none waits */
    AF_ADMIT_SLOTS,      /* as many as allowed are working */
    AF_ADMIT_MEMORY,     /* the first in line does not fit beside the running ones */
    AF_ADMIT_ALONE_RUNS, /* a compiler runs that must be alone */
    AF_ADMIT_FOR_ALONE   /* the next must be alone, and others still run */
};

struct af_admit_answer {
    enum af_admit_why why;
    size_t job; /* NOW: which may start; else the first in line; NOTHING: SIZE_MAX */
};

/* Decides for at most AF_ADMIT_JOBS_MAX jobs; takes about 1 ms for a whole build. */
struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits);

#endif
