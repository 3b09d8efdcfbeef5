/*
 * compiler_state.c: the arithmetic of predictions, stalls and exit codes.
 */
#include "kit/compile/governor/compiler_state.h"

#include <signal.h>

#define MARGIN_SHARE 12 /* 1/12 is added to a prediction until it is confirmed */
#define BESIDE_SHARE 4  /* the margin is at most 1/4 of the memory left beside the peak */
#define TAIL_SHARE 8    /* 1/8 of the peak is still used after it */
#define TAIL_MIN (UINT64_C(512) << 20)
#define GROWTH_SHARE 64 /* 1/64 of the limit, in half a second */
#define GROWTH_MAX (UINT64_C(256) << 20)
#define WORKING 0.3       /* cores that a build uses at least if it makes progress */
#define SURPRISE_SHARE 16 /* more than 1/16 above the prediction is clearly more */

bool af_demand_has_fallen(const struct af_job *job)
{
    const struct af_prediction *prediction = &job->prediction;
    return prediction->rises && prediction->tail_bytes > 0 &&
           job->resident_peak > prediction->bytes / 2 &&
           job->resident_bytes < job->resident_peak / 2;
}

static bool in_tail(const struct af_job *job)
{
    return job->state == AF_JOB_RUNNING && job->in_tail;
}

/* Bytes after the peak: the rest of cicc, then ptxas and the host compiler. */
static uint64_t tail_of(const struct af_job *job)
{
    const struct af_prediction *prediction = &job->prediction;
    uint64_t share = prediction->bytes / TAIL_SHARE;
    share = share > TAIL_MIN ? share : TAIL_MIN;
    return prediction->rises && share < prediction->tail_bytes ? share : prediction->tail_bytes;
}

static uint64_t predicted(const struct af_job *job)
{
    return in_tail(job) ? tail_of(job) : job->prediction.bytes;
}

uint64_t af_demand_bytes(const struct af_job *job)
{
    uint64_t need = predicted(job);
    return need > job->resident_bytes ? need : job->resident_bytes;
}

/*
 * The prediction with a margin while it is unconfirmed, for jobs that may overlap.
 * The margin is limited by the memory left beside the job: otherwise nothing could
 * run beside the largest.
 */
static uint64_t padded(const struct af_job *job, uint64_t budget_bytes)
{
    uint64_t need = predicted(job);
    if (job->known || in_tail(job) || !job->prediction.rises || need >= budget_bytes)
        return need;
    uint64_t margin = need / MARGIN_SHARE;
    uint64_t most = (budget_bytes - need) / BESIDE_SHARE;
    return need + (margin < most ? margin : most);
}

/*
 * How many of its predicted seconds are done. Before the peak this is estimated
 * from its memory; after it from the processor time that the rise took on this
 * machine.
 */
static double done_seconds(const struct af_job *job, double elapsed)
{
    const struct af_prediction *prediction = &job->prediction;
    double rise = AF_ADMIT_RISE * prediction->seconds;
    if (job->state != AF_JOB_RUNNING)
        return 0;
    if (!prediction->rises)
        return elapsed;
    if (job->in_tail)
        return job->rise_seconds > 0 ? rise * job->cpu_seconds / job->rise_seconds
                                     : job->cpu_seconds;
    double share = (double)job->resident_bytes / (double)(prediction->bytes + 1);
    return rise * (share < 1 ? share : 1);
}

struct af_admit_job af_demand_admit_job(const struct af_job *job, uint64_t budget_bytes,
                                        double elapsed)
{
    bool running = job->state == AF_JOB_RUNNING;
    return (struct af_admit_job){
        .state = running ? AF_ADMIT_RUNNING : AF_ADMIT_WAITING,
        .need_bytes = predicted(job),
        .padded_bytes = padded(job, budget_bytes),
        .tail_bytes = tail_of(job),
        .resident_bytes = running ? job->resident_bytes : 0,
        .seconds = job->prediction.seconds,
        .elapsed = done_seconds(job, elapsed),
        .rises = job->prediction.rises && !in_tail(job),
        .alone = job->alone,
        .paused = running && job->paused,
    };
}

struct af_deadlock_job af_demand_deadlock_job(const struct af_job *job, uint64_t budget_bytes,
                                              double elapsed)
{
    return (struct af_deadlock_job){.need_bytes = padded(job, budget_bytes),
                                    .resident_bytes = job->resident_bytes,
                                    .elapsed = elapsed,
                                    .paused = job->paused};
}

uint64_t af_demand_growth(uint64_t limit_bytes)
{
    return limit_bytes / GROWTH_SHARE < GROWTH_MAX ? limit_bytes / GROWTH_SHARE : GROWTH_MAX;
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
