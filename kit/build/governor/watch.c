/*
 * watch.c: a look at all compilers that run, twice a second: what they take,
 * whether they stand still for want of memory, whether one hangs.
 */
#include "kit/build/governor/jobs.h"

#include <signal.h>

#include "kit/build/governor/demand.h"
#include "kit/build/governor/tree.h"

#define ORPHAN_SECONDS 5.0 /* the kernel hands over orphans only after it closed the socket */
#define HANG_SECONDS 600.0 /* without processor time; files lie on slow networks, too */
#define REMARK_SHARE 0.1   /* of that until it is said */
#define TIGHT_SHARE 100    /* less than 1/100 left is "at the limit" */
#define HITS 100           /* and so is meeting it more often than this between two looks */
#define STALLED 0.5        /* and so is this share of time in which all wait for memory */
#define PAUSE_SECONDS 10.0 /* between two looks: we were stopped ourselves */
#define LOOK 0.5           /* seconds from look to look */
#define LOOK_CLOSE 0.2     /* while not all peaks fit */
#define GIB 1073741824.0

static void stop(struct af_governor *governor, struct af_job *job)
{
    job->stopped = true;
    governor->memory_freed_at = af_govern_now();
    af_tree_kill(job->group);
}

/* Stops the youngest; its gate reports the end, and it is repeated. Never the last. */
static void act_on_stall(struct af_governor *governor)
{
    struct af_job *youngest = NULL;
    size_t running = 0;
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING || job->group == 0 || job->paused)
            continue;
        running++;
        if (youngest == NULL || job->started > youngest->started)
            youngest = job;
    }
    if (running >= 2) {
        stop(governor, youngest);
    } else if (youngest != NULL && !youngest->remarked) {
        youngest->remarked = true;
        af_jobs_message(governor,
                        "%s stands still at %.1f GiB: memory is at its limit of %.1f GiB. "
                        "Nothing runs beside it, so it is left to go on when there is more",
                        youngest->prediction.file, (double)youngest->resident_bytes / GIB,
                        (double)governor->headroom.limit_bytes / GIB);
    }
}

/* Stops one that is paused and is in the way of all others. */
static void stop_paused(struct af_governor *governor)
{
    struct af_job *youngest = NULL;
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state == AF_JOB_RUNNING && job->paused &&
            (youngest == NULL || job->started > youngest->started))
            youngest = job;
    }
    if (youngest != NULL)
        stop(governor, youngest);
}

/* Pauses those that must not grow now, and lets them go on. */
static void pause_and_resume(struct af_governor *governor, double now)
{
    struct af_deadlock_job rows[AF_DEADLOCK_JOBS_MAX];
    struct af_job *of[AF_DEADLOCK_JOBS_MAX];
    size_t count = 0;
    uint64_t needs = 0;
    uint64_t budget = af_jobs_budget(governor);
    uint64_t growth = af_demand_growth(governor->headroom.limit_bytes);
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING || job->group == 0)
            continue;
        of[count] = job;
        needs += af_demand_bytes(job);
        rows[count++] = af_demand_deadlock_job(job, budget, now - job->started);
    }
    for (size_t changes = 0; changes < count + 1; changes++) {
        size_t at = af_deadlock_pause_or_resume(rows, count, budget, growth);
        if (at == SIZE_MAX)
            break;
        of[at]->paused = rows[at].paused;
        kill(-of[at]->group, rows[at].paused ? SIGSTOP : SIGCONT);
    }
    governor->sample_seconds = needs + growth > budget ? LOOK_CLOSE : LOOK;
    if (governor->headroom.left_bytes < growth)
        stop_paused(governor); /* a prediction was too low */
}

/* One that has used no processor for long is told of, then stopped; twice, it fails. */
static void look_for_hanging(struct af_governor *governor, struct af_job *job, double now,
                             double cpu_seconds)
{
    double limit = governor->options->hang_seconds;
    limit = limit > 0 ? limit : HANG_SECONDS;
    if (cpu_seconds > job->cpu_seconds + 0.01 || now - governor->looked > PAUSE_SECONDS)
        job->worked = now;
    job->cpu_seconds = cpu_seconds;
    if (now - job->worked > limit) {
        job->hung = true;
        job->worked = now;
        af_tree_kill(job->group);
    } else if (now - job->worked > REMARK_SHARE * limit && !job->remarked) {
        job->remarked = true;
        af_jobs_message(governor,
                        "%s has used no processor for %.0f s; after %.0f s it is "
                        "stopped",
                        job->prediction.file, now - job->worked, limit);
    }
}

/* What each that runs takes now; which job each is. */
static size_t sample_running(struct af_governor *governor,
                             struct af_tree trees[AF_GOVERN_JOBS_MAX],
                             struct af_job *of[AF_GOVERN_JOBS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING || job->group == 0)
            continue;
        of[count] = job;
        trees[count++] = (struct af_tree){.group = job->group, .tail = job->prediction.tail};
    }
    if (count > 0)
        af_tree_sample(trees, count);
    for (size_t i = 0; i < count; i++) {
        if (trees[i].count == 0)
            continue; /* it has just ended, or nothing can be read */
        of[i]->resident_bytes = trees[i].resident_bytes;
        if (trees[i].resident_bytes > of[i]->resident_peak)
            of[i]->resident_peak = trees[i].resident_bytes;
    }
    return count;
}

/* Samples all compilers; the seconds that they worked since the last time. */
static double sample(struct af_governor *governor, double now, bool at_limit,
                     unsigned *running_out)
{
    struct af_tree trees[AF_GOVERN_JOBS_MAX];
    struct af_job *of[AF_GOVERN_JOBS_MAX];
    size_t count = sample_running(governor, trees, of);
    double worked = 0;
    for (size_t i = 0; i < count; i++) {
        if (trees[i].count == 0)
            continue;
        double cpu_seconds = trees[i].user_seconds + trees[i].system_seconds;
        if (!of[i]->in_tail && (trees[i].tail_runs || af_demand_has_fallen(of[i]))) {
            of[i]->in_tail = true;
            of[i]->rise_seconds = cpu_seconds;
        }
        if (trees[i].user_seconds > of[i]->user_seconds)
            worked += trees[i].user_seconds - of[i]->user_seconds;
        of[i]->user_seconds = trees[i].user_seconds;
        if (at_limit || of[i]->paused)
            of[i]->worked = now; /* it waits for memory: a standstill, no fault of its own */
        look_for_hanging(governor, of[i], now, cpu_seconds);
    }
    *running_out = (unsigned)count;
    return worked;
}

void af_jobs_measure(struct af_governor *governor)
{
    struct af_tree trees[AF_GOVERN_JOBS_MAX];
    struct af_job *of[AF_GOVERN_JOBS_MAX];
    struct af_headroom_previous before = governor->headroom_previous;
    af_jobs_read_headroom(governor, &governor->headroom);
    governor->headroom_previous = before; /* the next look measures from the last one */
    sample_running(governor, trees, of);
    governor->freed = false;
}

static bool is_at_limit(const struct af_governor *governor)
{
    const struct af_headroom *headroom = &governor->headroom;
    return headroom->left_bytes < headroom->limit_bytes / TIGHT_SHARE ||
           headroom->stalled > STALLED || headroom->waits ||
           (governor->looked > 0 && headroom->limit_hits > governor->hits_seen + HITS);
}

void af_jobs_watch(struct af_governor *governor)
{
    double now = af_govern_now();
    struct af_stall_sample look = {.now = now, .interval = now - governor->looked};
    af_jobs_read_headroom(governor, &governor->headroom);
    governor->others_cores =
        0.9 * governor->others_cores + 0.1 * governor->headroom.others_cores;
    look.at_limit = governor->at_limit = is_at_limit(governor);
    look.user_seconds = sample(governor, now, look.at_limit, &look.running);
    governor->hits_seen = governor->headroom.limit_hits;
    governor->freed = false;
    if (governor->lost > 0 && now - governor->lost < ORPHAN_SECONDS)
        af_tree_kill_orphans(governor->build);
    pause_and_resume(governor, now);
    if (governor->looked > 0 && af_stall_check(&governor->stall, &look))
        act_on_stall(governor);
    governor->looked = now;
}
