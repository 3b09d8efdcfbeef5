/*
 * admission.h: which waiting compiler may start now. Pure: numbers in, a
 * decision with its reason out.
 *
 * Counted is the larger of what was predicted and what it takes already. Which
 * of those that fit starts is the question: the longest first, or the largest;
 * and while the first in line does not fit, whether later ones may delay it, or
 * may go ahead only where they do not ("EASY backfilling": Lifka 1995, The
 * ANL/IBM SP Scheduling System). One that rises slowly to its peak may also
 * start where only the peaks do not fit together: where each comes when there is
 * room for it, or where all can end in turn, with pauses (govern/bank.h). Each
 * way is played through to the end with what is predicted (govern/game.h), at
 * every decision. One always runs, however large: a build that cannot go on is
 * worth nothing.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_ADMISSION_H
#define AF_KIT_BUILD_GOVERNOR_ADMISSION_H

#include "engine/base/base.h"

#define AF_ADMIT_JOBS_MAX 512
#define AF_ADMIT_RISE 0.6 /* of the time that one takes which rises */

enum af_admit_state { AF_ADMIT_WAITING, AF_ADMIT_RUNNING };

struct af_admit_job {
    enum af_admit_state state;
    uint64_t need_bytes;     /* predicted peak, or of what is left of it */
    uint64_t careful_bytes;  /* where peaks overlap, if it is more */
    uint64_t tail_bytes;     /* of one that rises: after its peak */
    uint64_t resident_bytes; /* what it takes now, of one that runs */
    double seconds;          /* predicted, in all */
    double elapsed;          /* of these, since it started */
    bool rises;              /* evenly to its peak, at AF_ADMIT_RISE of its time */
    bool paused;
    bool alone; /* only with nothing else: memory was too short for it before */
};

struct af_admit_limits {
    uint64_t budget_bytes; /* for all compilers together */
    unsigned slots;        /* compilers that work at a time; at least 1 is taken for 0 */
    uint64_t growth_bytes; /* what each may grow until the next decision */
};

enum af_admit_why {
    AF_ADMIT_NOW,        /* one may start */
    AF_ADMIT_NOTHING,    /* none waits */
    AF_ADMIT_SLOTS,      /* as many run as may */
    AF_ADMIT_MEMORY,     /* the first in line does not fit beside what runs */
    AF_ADMIT_ALONE_RUNS, /* one runs that must be alone */
    AF_ADMIT_FOR_ALONE   /* the next must be alone, and others still run */
};

struct af_admit_answer {
    enum af_admit_why why;
    size_t job; /* which may start, or which the others wait for; of NOTHING none */
};

/* At most AF_ADMIT_JOBS_MAX jobs; the time is that of some thousand comparisons a job. */
struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits);

/* Bytes that those which run must be counted with. */
uint64_t af_admit_used(const struct af_admit_job *jobs, size_t count);

#endif
