/*
 * watch.c: samples the running compilers twice a second: what they use, whether the
 * build stalls for lack of memory, and whether one hangs.
 */
#include "kit/compile/governor/jobs.h"

#include "kit/compile/governor/process_tree.h"

#define HANG_SECONDS 600.0 /* without processor time; long, because of slow network disks */
#define WARNING_SHARE 0.1  /* of HANG_SECONDS, until a message warns of it */
#define TIGHT_SHARE 100    /* "at the limit": less than 1/100 is left */
#define HITS 100           /* or it was hit more often than this since the last sample */
#define STALLED 0.5 /* or all processes waited for memory for more than this share of time */
#define PAUSE_SECONDS 10.0 /* between two samples: the governor itself was stopped */
#define GIB 1073741824.0

static void stop(struct af_governor *governor, struct af_job *job)
{
    job->stopped = true;
    governor->memory_freed_at = af_govern_now();
    af_tree_kill(job->group);
}

/* Stops the youngest compiler, which is repeated later; never the last one. */
static void act_on_stall(struct af_governor *governor)
{
    struct af_job *youngest = NULL;
    size_t running = 0;
    for (size_t i = 0; i < governor->options->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING)
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
                        "%s makes no progress at %.1f GiB: the memory limit is %.1f GiB. "
                        "Nothing else runs, so it waits until more memory is free",
                        youngest->prediction.file, (double)youngest->resident_bytes / GIB,
                        (double)governor->headroom.limit_bytes / GIB);
    }
}

/* A compiler that uses no processor time: first prints a message, later stops it. */
static void check_hang(struct af_governor *governor, struct af_job *job, double now,
                       double cpu_seconds)
{
    double limit = governor->options->hang_seconds;
    limit = limit > 0 ? limit : HANG_SECONDS;
    if (cpu_seconds > job->cpu_seconds + 0.01 || now - governor->sampled_at > PAUSE_SECONDS)
        job->worked = now;
    job->cpu_seconds = cpu_seconds;
    if (now - job->worked > limit) {
        job->hung = true;
        job->worked = now;
        af_tree_kill(job->group);
    } else if (now - job->worked > WARNING_SHARE * limit && !job->warned) {
        job->warned = true;
        af_jobs_message(governor,
                        "%s has used no processor time for %.0f s; it will be stopped "
                        "after %.0f s",
                        job->prediction.file, now - job->worked, limit);
    }
}

/* Measures each running compiler; of[i] is the job of trees[i]. */
static size_t sample_running(struct af_governor *governor,
                             struct af_tree trees[AF_GOVERN_JOBS_MAX],
                             struct af_job *of[AF_GOVERN_JOBS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < governor->options->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING)
            continue;
        of[count] = job;
        trees[count++] = (struct af_tree){.group = job->group, .tail = job->prediction.tail};
    }
    if (count > 0)
        af_tree_sample(trees, count);
    for (size_t i = 0; i < count; i++) {
        if (trees[i].count == 0)
            continue; /* it has just ended, or cannot be read */
        of[i]->resident_bytes = trees[i].resident_bytes;
        if (trees[i].resident_bytes > of[i]->resident_peak)
            of[i]->resident_peak = trees[i].resident_bytes;
    }
    return count;
}

/* Samples all compilers; returns their user seconds since the last sample. */
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
        if (trees[i].tail_runs || af_demand_has_fallen(of[i]))
            of[i]->in_tail = true;
        if (trees[i].user_seconds > of[i]->user_seconds)
            worked += trees[i].user_seconds - of[i]->user_seconds;
        of[i]->user_seconds = trees[i].user_seconds;
        if (at_limit)
            of[i]->worked = now; /* it waits for memory, so it does not hang */
        check_hang(governor, of[i], now, cpu_seconds);
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
    governor->headroom_previous = before; /* the next sample compares with the last one */
    sample_running(governor, trees, of);
    governor->freed = false;
}

static bool is_at_limit(const struct af_governor *governor)
{
    const struct af_headroom *headroom = &governor->headroom;
    return headroom->left_bytes < headroom->limit_bytes / TIGHT_SHARE ||
           headroom->stalled > STALLED || headroom->waits ||
           (governor->sampled_at > 0 && headroom->limit_hits > governor->hits_seen + HITS);
}

void af_jobs_watch(struct af_governor *governor)
{
    double now = af_govern_now();
    struct af_stall_sample stall = {.now = now, .interval = now - governor->sampled_at};
    af_jobs_read_headroom(governor, &governor->headroom);
    governor->others_cores =
        0.9 * governor->others_cores + 0.1 * governor->headroom.others_cores;
    stall.at_limit = governor->at_limit = is_at_limit(governor);
    stall.user_seconds = sample(governor, now, stall.at_limit, &stall.running);
    governor->hits_seen = governor->headroom.limit_hits;
    governor->freed = false;
    if (governor->sampled_at > 0 && af_stall_check(&governor->stall, &stall))
        act_on_stall(governor);
    governor->sampled_at = now;
}
