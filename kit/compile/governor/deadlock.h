/*
 * deadlock.h: which compilers may grow. Pure: numbers in, a decision out.
 *
 * A compiler that reaches its peak slowly may run beside another although both
 * peaks do not fit, as long as all can still finish one after the other: the state
 * is safe in the sense of the banker's algorithm (Dijkstra 1965, EWD 108). If
 * further growth would make it unsafe, the youngest compiler is paused; it resumes
 * when another has ended or is past its peak. No work is lost.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_DEADLOCK_H
#define AF_KIT_COMPILE_GOVERNOR_DEADLOCK_H

#include "engine/base/base.h"

#define AF_DEADLOCK_JOBS_MAX 512

struct af_deadlock_job {
    uint64_t need_bytes;     /* its peak; after the peak: what the rest of the run needs */
    uint64_t resident_bytes; /* used now */
    double elapsed;          /* the youngest is paused first */
    bool paused;
};

/*
 * Whether all jobs can finish one after the other within the budget, after each
 * job that is not paused has grown by `growth_bytes`.
 */
bool af_deadlock_all_can_finish(const struct af_deadlock_job *jobs, size_t count,
                                uint64_t budget_bytes, uint64_t growth_bytes);

/*
 * Changes `paused` of at most one job and returns its index, or SIZE_MAX if nothing
 * has to change. The last running job is paused only if another can resume in its
 * place. Call it until it returns SIZE_MAX.
 */
size_t af_deadlock_pause_or_resume(struct af_deadlock_job *jobs, size_t count,
                                   uint64_t budget_bytes, uint64_t growth_bytes);

#endif
