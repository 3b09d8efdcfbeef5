/*
 * admission.c: the ways to go on are played through; the one that ends first
 * says what starts now.
 */
#include "kit/build/governor/admission.h"

#include <assert.h>
#include <math.h>

#include "kit/build/governor/simulation.h"

/* The bytes that a job is counted with. */
static uint64_t weight(const struct af_admit_job *job)
{
    return job->resident_bytes > job->need_bytes ? job->resident_bytes : job->need_bytes;
}

uint64_t af_admit_used(const struct af_admit_job *jobs, size_t count)
{
    uint64_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING)
            used += weight(&jobs[i]);
    }
    return used;
}

static size_t running_count(const struct af_admit_job *jobs, size_t count, bool *alone_out,
                            size_t *working_out)
{
    size_t running = 0;
    *working_out = 0;
    *alone_out = false;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING) {
            running++;
            *working_out += !jobs[i].paused;
            *alone_out |= jobs[i].alone;
        }
    }
    return running;
}

/* Those that must be alone before all others, then the longest, then the first to come. */
static bool goes_before(const struct af_admit_job *a, const struct af_admit_job *b)
{
    return a->alone != b->alone ? a->alone : a->seconds > b->seconds;
}

static size_t first_in_line(const struct af_admit_job *jobs, size_t count)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_WAITING &&
            (best == SIZE_MAX || goes_before(&jobs[i], &jobs[best])))
            best = i;
    }
    return best;
}

/*
 * None is best for all, so each is played through with what is predicted, and
 * the one that ends first is followed. Without a job that has to wait for
 * memory they do not differ.
 */
static const struct af_simulation_policy plans[] = {
    {AF_SIMULATION_LONGEST_FIRST, true, AF_SIMULATION_PEAKS_FIT},
    {AF_SIMULATION_LONGEST_FIRST, false, AF_SIMULATION_PEAKS_FIT},
    {AF_SIMULATION_LARGEST_FIRST, true, AF_SIMULATION_PEAKS_FIT},
    {AF_SIMULATION_LARGEST_FIRST, false, AF_SIMULATION_PEAKS_FIT},
    {AF_SIMULATION_LONGEST_FIRST, false, AF_SIMULATION_PEAKS_STAGGERED},
    {AF_SIMULATION_LARGEST_FIRST, false, AF_SIMULATION_PEAKS_STAGGERED},
    {AF_SIMULATION_LONGEST_FIRST, false, AF_SIMULATION_PEAKS_WITH_PAUSES},
    {AF_SIMULATION_LARGEST_FIRST, false, AF_SIMULATION_PEAKS_WITH_PAUSES},
};

#define BETTER 0.99 /* a later plan must end earlier by this to be taken */

static bool any_rises(const struct af_admit_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].rises && jobs[i].state == AF_ADMIT_WAITING)
            return true;
    }
    return false;
}

/* What the plan that ends first would start now, or SIZE_MAX. */
static size_t best_start(const struct af_admit_job *jobs, size_t count,
                         const struct af_admit_limits *limits)
{
    double best = INFINITY;
    size_t start = SIZE_MAX;
    bool rises = any_rises(jobs, count);
    for (size_t i = 0; i < AF_COUNT(plans); i++) {
        if (plans[i].peaks != AF_SIMULATION_PEAKS_FIT && !rises)
            continue;
        struct af_simulation_result end = af_simulation_run(jobs, count, limits, &plans[i]);
        if (end.seconds < BETTER * best) {
            best = end.seconds;
            start = end.start;
        }
        if (!end.waited)
            break;
    }
    return start;
}

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits)
{
    bool alone;
    size_t working;
    assert(count <= AF_ADMIT_JOBS_MAX);
    size_t running = running_count(jobs, count, &alone, &working);
    size_t first = first_in_line(jobs, count);
    if (first == SIZE_MAX)
        return (struct af_admit_answer){AF_ADMIT_NOTHING, SIZE_MAX};
    if (alone)
        return (struct af_admit_answer){AF_ADMIT_ALONE_RUNS, first};
    if (jobs[first].alone)
        return (struct af_admit_answer){running == 0 ? AF_ADMIT_NOW : AF_ADMIT_FOR_ALONE,
                                        first};
    if (working >= (limits->slots == 0 ? 1 : limits->slots))
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    size_t start = best_start(jobs, count, limits);
    return start == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                             : (struct af_admit_answer){AF_ADMIT_NOW, start};
}
