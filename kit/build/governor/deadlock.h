/*
 * deadlock.h: which compilers may grow. Pure: numbers in, a decision out.
 *
 * A compiler that reaches its peak slowly may start beside another although
 * both peaks do not fit, as long as each can still come to its end in turn:
 * the state is safe in the sense of the banker's algorithm (Dijkstra 1965,
 * EWD 108). Those that would make it unsafe are paused, and go on when another
 * has ended or is past its peak. Nothing is lost, and nobody is killed.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_DEADLOCK_H
#define AF_KIT_BUILD_GOVERNOR_DEADLOCK_H

#include "engine/base/base.h"

#define AF_DEADLOCK_JOBS_MAX 512

struct af_deadlock_job {
    uint64_t need_bytes;     /* at its peak, or of what is left of it */
    uint64_t resident_bytes; /* now */
    double elapsed;          /* the youngest are paused first */
    bool paused;
};

/*
 * Whether all can end one after the other within the budget when those that are
 * not paused have first grown by `growth_bytes` each.
 */
bool af_deadlock_all_can_finish(const struct af_deadlock_job *jobs, size_t count,
                                uint64_t budget_bytes, uint64_t growth_bytes);

/*
 * Changes `paused` of at most one job and returns its number; SIZE_MAX when all
 * may stay as they are. The last that runs is paused only where another may go
 * on in its place: call it until nothing changes.
 */
size_t af_deadlock_pause_or_resume(struct af_deadlock_job *jobs, size_t count,
                                   uint64_t budget_bytes, uint64_t growth_bytes);

#endif
