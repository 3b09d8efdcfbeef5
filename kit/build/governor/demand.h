/*
 * demand.h: what a compiler needs from now on, by what was predicted and by
 * what was seen of it. Pure. Private to this module.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_DEMAND_H
#define AF_KIT_BUILD_GOVERNOR_DEMAND_H

#include "kit/build/governor/deadlock.h"
#include "kit/build/governor/jobs.h"

/* Whether its peak is behind it: cicc frees its front end's memory before it goes on. */
bool af_demand_has_fallen(const struct af_job *job);

/* What it must be counted with from now on, without a margin. */
uint64_t af_demand_bytes(const struct af_job *job);

/*
 * As af_admit() and af_deadlock_pause_or_resume() take it. `budget_bytes` is for all; `elapsed`
 * is in seconds since it started, and counts for those that do not rise.
 */
struct af_admit_job af_demand_admit_job(const struct af_job *job, uint64_t budget_bytes,
                                        double elapsed);
struct af_deadlock_job af_demand_deadlock_job(const struct af_job *job, uint64_t budget_bytes,
                                              double elapsed);

/* What each may grow between two samples, within a limit (AF_HEADROOM_UNLIMITED: none). */
uint64_t af_demand_growth(uint64_t limit_bytes);

#endif
