/*
 * watch.c: samples the running compilers twice a second: what they use, which
 * must pause, whether the build stalls for lack of memory, and whether one
 * hangs.
 */
#include "kit/compile/governor/jobs.h"

#include <signal.h>

#include "kit/compile/governor/process_tree.h"

#define ORPHAN_SECONDS 5.0 /* orphans become ours some time after the socket closes */
#define HANG_SECONDS 600.0 /* without processor time; long, because of slow network disks */
#define WARNING_SHARE 0.1  /* of HANG_SECONDS, until a message warns of it */
#define TIGHT_SHARE 100    /* "at the limit": less than 1/100 is left */
#define HITS 100           /* or it was hit more often than this since the last sample */
#define STALLED 0.5 /* or all processes waited for memory for more than this share of time */
#define PAUSE_SECONDS 10.0       /* between two samples: the governor itself was stopped */
#define SAMPLE_SECONDS 0.5       /* between two samples */
#define SAMPLE_SECONDS_TIGHT 0.2 /* while not all peaks fit */
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
                        "%s makes no progress at %.1f GiB: the memory limit is %.1f GiB. "
                        "Nothing else runs, so it waits until more memory is free",
                        youngest->prediction.file, (double)youngest->resident_bytes / GIB,
                        (double)governor->headroom.limit_bytes / GIB);
    }
}

/* Stops the youngest paused compiler, to free its memory. */
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

/* Pauses compilers that must not grow now, and resumes those that may. */
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
    governor->sample_seconds = needs + growth > budget ? SAMPLE_SECONDS_TIGHT : SAMPLE_SECONDS;
    if (governor->headroom.left_bytes < growth)
        stop_paused(governor); /* a prediction was too low */
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
        if (!of[i]->in_tail && (trees[i].tail_runs || af_demand_has_fallen(of[i]))) {
            of[i]->in_tail = true;
            of[i]->rise_seconds = cpu_seconds;
        }
        if (trees[i].user_seconds > of[i]->user_seconds)
            worked += trees[i].user_seconds - of[i]->user_seconds;
        of[i]->user_seconds = trees[i].user_seconds;
        if (at_limit || of[i]->paused)
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
    if (governor->wrapper_lost_at > 0 && now - governor->wrapper_lost_at < ORPHAN_SECONDS)
        af_tree_kill_orphans(governor->build);
    pause_and_resume(governor, now);
    if (governor->sampled_at > 0 && af_stall_check(&governor->stall, &stall))
        act_on_stall(governor);
    governor->sampled_at = now;
}
