/*
 * deadlock.c: the banker's algorithm for one resource, memory, and which job to pause.
 */
#include "kit/compile/governor/deadlock.h"

#include <assert.h>

/* Bytes after its next growth; never more than it needs. */
static uint64_t grown(const struct af_deadlock_job *job, uint64_t growth_bytes)
{
    uint64_t after = job->resident_bytes + (job->paused ? 0 : growth_bytes);
    uint64_t most =
        job->need_bytes > job->resident_bytes ? job->need_bytes : job->resident_bytes;
    return after < most ? after : most;
}

bool af_deadlock_all_can_finish(const struct af_deadlock_job *jobs, size_t count,
                                uint64_t budget_bytes, uint64_t growth_bytes)
{
    bool ended[AF_DEADLOCK_JOBS_MAX] = {false};
    uint64_t used = 0;
    assert(count <= AF_DEADLOCK_JOBS_MAX);
    for (size_t i = 0; i < count; i++)
        used += grown(&jobs[i], growth_bytes);
    size_t left = count;
    for (size_t before = count + 1; left < before;) {
        before = left;
        for (size_t i = 0; i < count; i++) {
            uint64_t has = grown(&jobs[i], growth_bytes);
            uint64_t more = jobs[i].need_bytes > has ? jobs[i].need_bytes - has : 0;
            if (ended[i] || used + more > budget_bytes)
                continue;
            ended[i] = true;
            used -= has;
            left--;
        }
    }
    return left == 0;
}

/* The oldest paused job that can safely resume; SIZE_MAX: none. */
static size_t to_resume(struct af_deadlock_job *jobs, size_t count, uint64_t budget_bytes,
                        uint64_t growth_bytes)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!jobs[i].paused || (best != SIZE_MAX && jobs[i].elapsed <= jobs[best].elapsed))
            continue;
        jobs[i].paused = false;
        if (af_deadlock_all_can_finish(jobs, count, budget_bytes, growth_bytes))
            best = i;
        jobs[i].paused = true;
    }
    return best;
}

static size_t running_count(const struct af_deadlock_job *jobs, size_t count)
{
    size_t running = 0;
    for (size_t i = 0; i < count; i++)
        running += !jobs[i].paused;
    return running;
}

/*
 * The youngest job whose pause makes the state safe; if there is none, the youngest.
 * The last running job only if another can resume in its place; else SIZE_MAX.
 */
static size_t to_pause(struct af_deadlock_job *jobs, size_t count, uint64_t budget_bytes,
                       uint64_t growth_bytes)
{
    size_t youngest = SIZE_MAX;
    size_t best = SIZE_MAX;
    bool last = running_count(jobs, count) < 2;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].paused)
            continue;
        if (youngest == SIZE_MAX || jobs[i].elapsed < jobs[youngest].elapsed)
            youngest = i;
        jobs[i].paused = true;
        bool safe = last ? to_resume(jobs, count, budget_bytes, growth_bytes) != SIZE_MAX
                         : af_deadlock_all_can_finish(jobs, count, budget_bytes, growth_bytes);
        if (safe && (best == SIZE_MAX || jobs[i].elapsed < jobs[best].elapsed))
            best = i;
        jobs[i].paused = false;
    }
    return best != SIZE_MAX || last ? best : youngest;
}

/* At least one job must run: the oldest that is safe, else the oldest. */
static size_t must_resume(struct af_deadlock_job *jobs, size_t count, uint64_t budget_bytes,
                          uint64_t growth_bytes)
{
    size_t job = to_resume(jobs, count, budget_bytes, growth_bytes);
    if (job == SIZE_MAX)
        job = to_resume(jobs, count, budget_bytes, 0);
    for (size_t i = 0; job == SIZE_MAX && i < count; i++) {
        bool older = true;
        for (size_t k = 0; k < count; k++)
            older = older && jobs[k].elapsed <= jobs[i].elapsed;
        job = older ? i : SIZE_MAX;
    }
    return job;
}

size_t af_deadlock_pause_or_resume(struct af_deadlock_job *jobs, size_t count,
                                   uint64_t budget_bytes, uint64_t growth_bytes)
{
    size_t job;
    if (running_count(jobs, count) == 0)
        job = must_resume(jobs, count, budget_bytes, growth_bytes);
    else if (af_deadlock_all_can_finish(jobs, count, budget_bytes, growth_bytes))
        job = to_resume(jobs, count, budget_bytes, 2 * growth_bytes);
    else
        job = to_pause(jobs, count, budget_bytes, growth_bytes);
    if (job != SIZE_MAX)
        jobs[job].paused = !jobs[job].paused;
    return job;
}
