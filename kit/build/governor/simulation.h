/*
 * simulation.h: a schedule played through to its end with what is predicted. Pure.
 * Private to this module.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_SIMULATION_H
#define AF_KIT_BUILD_GOVERNOR_SIMULATION_H

#include "kit/build/governor/admission.h"

enum af_simulation_order { AF_SIMULATION_LONGEST_FIRST, AF_SIMULATION_LARGEST_FIRST };

/* What starts beside those that run. */
enum af_simulation_overlap {
    AF_SIMULATION_PEAKS_FIT,       /* only those whose peaks fit together */
    AF_SIMULATION_PEAKS_STAGGERED, /* also one whose peak comes when there is room for it */
    AF_SIMULATION_PEAKS_WITH_PAUSES /* pausing jobs where needed (deadlock.h) */
};

struct af_simulation_policy {
    enum af_simulation_order order; /* of those that wait: the largest first */
    bool holds;                     /* room for the first in line that does not fit */
    enum af_simulation_overlap peaks;
};

struct af_simulation_result {
    double seconds; /* until all have ended */
    size_t start;   /* the first that the plan starts now; SIZE_MAX: none */
    bool waited;    /* one had to wait for memory although a slot was free */
};

struct af_simulation_result af_simulation_run(const struct af_admit_job *jobs, size_t count,
                                              const struct af_admit_limits *limits,
                                              const struct af_simulation_policy *plan);

#endif
