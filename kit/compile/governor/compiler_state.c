/*
 * compiler_state.c: the arithmetic of predictions, stalls and exit codes, and which waiting
 * compiler may start.
 */
#include "kit/compile/governor/jobs.h"

#include <signal.h>

#define TAIL_SHARE 8 /* 1/8 of the peak is still used after it */
#define TAIL_MIN (UINT64_C(512) << 20)
#define WORKING 0.3       /* cores that a build uses at least if it makes progress */
#define SURPRISE_SHARE 16 /* more than 1/16 above the prediction is clearly more */

bool af_demand_has_fallen(const struct af_job *job)
{
    const struct af_prediction *prediction = &job->prediction;
    return prediction->rises && prediction->tail_bytes > 0 &&
           job->resident_peak > prediction->bytes / 2 &&
           job->resident_bytes < job->resident_peak / 2;
}

/* Bytes after the peak: the rest of cicc, then ptxas and the host compiler. */
static uint64_t tail_of(const struct af_job *job)
{
    const struct af_prediction *prediction = &job->prediction;
    uint64_t share = prediction->bytes / TAIL_SHARE;
    share = share > TAIL_MIN ? share : TAIL_MIN;
    return prediction->rises && share < prediction->tail_bytes ? share : prediction->tail_bytes;
}

static uint64_t demand_bytes(const struct af_job *job)
{
    return job->state == AF_JOB_RUNNING && job->in_tail ? tail_of(job) : job->prediction.bytes;
}

/* What runs. */
struct running {
    size_t count;
    uint64_t bytes;
    bool alone;
};

static struct running running_of(const struct af_job *jobs, size_t count)
{
    struct running running = {0};
    for (size_t i = 0; i < count; i++) {
        const struct af_job *job = &jobs[i];
        if (job->state != AF_JOB_RUNNING)
            continue;
        uint64_t bytes = demand_bytes(job);
        running.count++;
        running.bytes += bytes > job->resident_bytes ? bytes : job->resident_bytes;
        running.alone |= job->alone;
    }
    return running;
}

/*
 * The first in line of those that need at most `left_bytes`: jobs that must be alone, then
 * the longest, then the first in the list. SIZE_MAX: none.
 */
static size_t first_in_line(const struct af_job *jobs, size_t count, uint64_t left_bytes)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != AF_JOB_WAITING || demand_bytes(&jobs[i]) > left_bytes)
            continue;
        if (best == SIZE_MAX ||
            (jobs[i].alone != jobs[best].alone
                 ? jobs[i].alone
                 : jobs[i].prediction.seconds > jobs[best].prediction.seconds))
            best = i;
    }
    return best;
}

struct af_admit_answer af_admit(const struct af_job *jobs, size_t count, uint64_t budget_bytes,
                                unsigned slots)
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
    if (running.count >= slots)
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    size_t fits = running.bytes > budget_bytes
                      ? SIZE_MAX
                      : first_in_line(jobs, count, budget_bytes - running.bytes);
    return fits == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                            : (struct af_admit_answer){AF_ADMIT_NOW, fits};
}

bool af_stall_check(struct af_stall *stall, const struct af_stall_sample *sample)
{
    bool still = sample->running > 0 && sample->at_limit && sample->interval > 0 &&
                 sample->user_seconds < WORKING * sample->interval;
    if (still && !stall->still)
        stall->since = sample->now - sample->interval;
    stall->still = still;
    double limit = stall->limit_seconds > 0 ? stall->limit_seconds : AF_STALL_SECONDS;
    if (!still || sample->now - stall->since < limit)
        return false;
    stall->still = false;
    return true;
}

bool af_end_exceeds_prediction(uint64_t need_bytes, uint64_t peak_bytes)
{
    return peak_bytes > need_bytes + need_bytes / SURPRISE_SHARE;
}

/* Whether the exit code means a signal, to the compiler or to a program it started. */
static bool is_signal(int code)
{
    return code > 128 && code <= 128 + SIGSYS;
}

static bool is_from_outside(int code)
{
    return code == 128 + SIGKILL || code == 128 + SIGTERM || code == 128 + SIGINT ||
           code == 128 + SIGHUP;
}

static bool is_for_memory(const struct af_end *end)
{
    if (end->stopped)
        return true;
    if (end->code !=
        128 +
            SIGKILL) /* g++ and ptxas hide the signal; alone, the kill was of another process */
        return end->kernel_killed && !end->alone;
    return end->kernel_killed ||
           (end->at_limit && af_end_exceeds_prediction(end->need_bytes, end->peak_bytes));
}

enum af_end_cause af_end_cause(const struct af_end *end)
{
    if (end->code == 0)
        return AF_END_SUCCESS;
    if (end->hung)
        return is_signal(end->code) ? AF_END_HUNG : AF_END_FAILED;
    if (is_for_memory(end))
        return AF_END_MEMORY;
    if (is_from_outside(end->code))
        return AF_END_SIGNALLED;
    return is_signal(end->code) ? AF_END_CRASHED : AF_END_FAILED;
}

unsigned af_end_retry_limit(enum af_end_cause cause)
{
    static const unsigned most[AF_END_CAUSES] = {
        [AF_END_MEMORY] = 4, [AF_END_SIGNALLED] = 4, [AF_END_CRASHED] = 2, [AF_END_HUNG] = 2};
    return most[cause];
}
