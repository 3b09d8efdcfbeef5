/*
 * admission.h: which waiting compiler may start now. Pure: numbers in, a
 * decision with its reason out.
 *
 * The longest waiting compiler that fits beside the running ones starts, because
 * long ones that start late leave cores idle at the end. A compiler counts with
 * what it will still need, or with what it uses if that is more. At least one
 * always runs, however large, because otherwise the build could not continue.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_ADMISSION_H
#define AF_KIT_COMPILE_GOVERNOR_ADMISSION_H

#include "engine/base/base.h"

enum af_admit_state { AF_ADMIT_WAITING, AF_ADMIT_RUNNING };

struct af_admit_job {
    enum af_admit_state state;
    uint64_t need_bytes;     /* predicted peak; after the peak: the rest of the run */
    uint64_t resident_bytes; /* used now; 0 while it waits */
    double seconds;          /* predicted, from start to end */
    bool alone;              /* must run with nothing beside it: it ran out of memory before */
};

struct af_admit_limits {
    uint64_t budget_bytes; /* for all compilers together */
    unsigned slots;        /* compilers at a time; 0 counts as 1 */
};

enum af_admit_why {
    AF_ADMIT_NOW,        /* one may start */
    AF_ADMIT_NOTHING,    /* none waits */
    AF_ADMIT_SLOTS,      /* as many as allowed are running */
    AF_ADMIT_MEMORY,     /* none fits beside the running ones */
    AF_ADMIT_ALONE_RUNS, /* a compiler runs that must be alone */
    AF_ADMIT_FOR_ALONE   /* the next must be alone, and others still run */
};

struct af_admit_answer {
    enum af_admit_why why;
    size_t job; /* NOW: which may start; else the first in line; NOTHING: SIZE_MAX */
};

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits);

#endif
