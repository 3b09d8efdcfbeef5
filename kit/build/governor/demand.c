/*
 * demand.c: peaks that are to come or over, with a margin where they are not
 * yet known, and how far a compiler has come.
 */
#include "kit/build/governor/demand.h"

#define DOUBT_SHARE 12 /* of a prediction is added to it until it is known */
#define BESIDE_SHARE 4 /* of what is left beside it is as much as that may be */
#define TAIL_SHARE 8   /* of the peak */
#define TAIL_LEAST (UINT64_C(512) << 20)
#define GROWTH_SHARE 64 /* 1/64 of the limit, in half a second */
#define GROWTH_MAX (UINT64_C(256) << 20)

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

/* After its peak: the rest of cicc takes a part of it, and the host's compiler is the last. */
static uint64_t tail_of(const struct af_job *job)
{
    const struct af_prediction *prediction = &job->prediction;
    uint64_t share = prediction->bytes / TAIL_SHARE;
    share = share > TAIL_LEAST ? share : TAIL_LEAST;
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
 * With a margin where it is not known, for those whose peaks do not fit
 * together: at most a part of what is left beside it, or nobody could hold
 * anything while the largest rises.
 */
static uint64_t careful(const struct af_job *job, uint64_t budget_bytes)
{
    uint64_t need = predicted(job);
    if (job->known || in_tail(job) || !job->prediction.rises || need >= budget_bytes)
        return need;
    uint64_t margin = need / DOUBT_SHARE;
    uint64_t most = (budget_bytes - need) / BESIDE_SHARE;
    return need + (margin < most ? margin : most);
}

/* Of its predicted seconds; how fast this machine is shows in what its peak took. */
static double done(const struct af_job *job, double elapsed)
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
        .careful_bytes = careful(job, budget_bytes),
        .tail_bytes = tail_of(job),
        .resident_bytes = running ? job->resident_bytes : 0,
        .seconds = job->prediction.seconds,
        .elapsed = done(job, elapsed),
        .rises = job->prediction.rises && !in_tail(job),
        .alone = job->alone,
        .paused = running && job->paused,
    };
}

struct af_deadlock_job af_demand_deadlock_job(const struct af_job *job, uint64_t budget_bytes,
                                              double elapsed)
{
    return (struct af_deadlock_job){.need_bytes = careful(job, budget_bytes),
                                    .resident_bytes = job->resident_bytes,
                                    .elapsed = elapsed,
                                    .paused = job->paused};
}

uint64_t af_demand_growth(uint64_t limit_bytes)
{
    return limit_bytes / GROWTH_SHARE < GROWTH_MAX ? limit_bytes / GROWTH_SHARE : GROWTH_MAX;
}
