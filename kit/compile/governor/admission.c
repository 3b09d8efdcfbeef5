/*
 * admission.c: the longest waiting compiler that fits.
 */
#include "kit/compile/governor/admission.h"

/* What runs. */
struct running {
    size_t count;
    uint64_t bytes;
    bool alone;
};

static struct running running_of(const struct af_admit_job *jobs, size_t count)
{
    struct running running = {0};
    for (size_t i = 0; i < count; i++) {
        const struct af_admit_job *job = &jobs[i];
        if (job->state != AF_ADMIT_RUNNING)
            continue;
        running.count++;
        running.bytes +=
            job->need_bytes > job->resident_bytes ? job->need_bytes : job->resident_bytes;
        running.alone |= job->alone;
    }
    return running;
}

/*
 * The first in line of those that need at most `left_bytes`: jobs that must be alone, then
 * the longest, then the first in the list. SIZE_MAX: none.
 */
static size_t first_in_line(const struct af_admit_job *jobs, size_t count, uint64_t left_bytes)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != AF_ADMIT_WAITING || jobs[i].need_bytes > left_bytes)
            continue;
        if (best == SIZE_MAX ||
            (jobs[i].alone != jobs[best].alone ? jobs[i].alone
                                               : jobs[i].seconds > jobs[best].seconds))
            best = i;
    }
    return best;
}

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits)
{
    struct running running = running_of(jobs, count);
    size_t first = first_in_line(jobs, count, UINT64_MAX);
    if (first == SIZE_MAX)
        return (struct af_admit_answer){AF_ADMIT_NOTHING, SIZE_MAX};
    if (running.count == 0)
        return (struct af_admit_answer){AF_ADMIT_NOW, first};
    if (running.alone)
        return (struct af_admit_answer){AF_ADMIT_ALONE_RUNS, first};
    if (jobs[first].alone)
        return (struct af_admit_answer){AF_ADMIT_FOR_ALONE, first};
    if (running.count >= limits->slots)
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    size_t fits = running.bytes > limits->budget_bytes
                      ? SIZE_MAX
                      : first_in_line(jobs, count, limits->budget_bytes - running.bytes);
    return fits == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                            : (struct af_admit_answer){AF_ADMIT_NOW, fits};
}
