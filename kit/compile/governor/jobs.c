/*
 * jobs.c: a compiler call from its start to its end: started when there is memory
 * for it, repeated if it was killed, and measured twice a second: what it uses, whether the
 * build stalls for lack of memory, and whether one hangs.
 */
#include "kit/compile/governor/jobs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define RAISE 1.25       /* a killed compiler is predicted to need 1.25 times its peak */
#define RESERVE_SHARE 50 /* 1/50 of the limit is kept free */
#define RESERVE_MAX (UINT64_C(1) << 30)
#define BUILD_BYTES (UINT64_C(64) << 20) /* this program */
#define CALM_SECONDS 1.0   /* after a kill for memory nothing starts for this long */
#define STALLED 0.2        /* share of time waited for memory above which nothing more starts */
#define HANG_SECONDS 600.0 /* without processor time; long, because of slow network disks */
#define WARNING_SHARE 0.1  /* of HANG_SECONDS, until a message warns of it */
#define TIGHT_SHARE 100    /* "at the limit": less than 1/100 is left */
#define HITS 100           /* or it was hit more often than this since the last sample */
#define LIMIT_STALLED 0.5  /* or all processes waited for memory for more than this share */
#define PAUSE_SECONDS 10.0 /* between two samples: the governor itself was stopped */
#define GIB 1073741824.0

double af_govern_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void af_jobs_read_headroom(struct af_governor *governor, struct af_headroom *headroom_out)
{
    const char *group = governor->cgroup.folder;
    af_headroom_read(governor->options->root, group[0] == '\0' ? NULL : group,
                     &governor->headroom_previous, headroom_out);
}

/* The same between two samples: the next sample compares with the last one. */
static void peek_headroom(struct af_governor *governor, struct af_headroom *headroom_out)
{
    struct af_headroom_previous before = governor->headroom_previous;
    af_jobs_read_headroom(governor, headroom_out);
    governor->headroom_previous = before;
}

static uint64_t running_bytes(const struct af_governor *governor)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < governor->options->job_count; i++) {
        if (governor->jobs[i].state == AF_JOB_RUNNING)
            bytes += governor->jobs[i].resident_bytes;
    }
    return bytes;
}

/* Bytes that all compilers may use together, the running ones included. */
static uint64_t budget_of(const struct af_governor *governor)
{
    uint64_t bytes = AF_HEADROOM_UNLIMITED;
    uint64_t given = governor->options->memory_bytes;
    if (governor->headroom.left_bytes != AF_HEADROOM_UNLIMITED) {
        uint64_t reserve = governor->headroom.limit_bytes / RESERVE_SHARE;
        bytes = governor->headroom.left_bytes + running_bytes(governor);
        reserve = reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
        if (bytes >
            governor->headroom.limit_bytes) /* a compiler that has just ended may count twice */
            bytes = governor->headroom.limit_bytes;
        bytes = bytes > reserve ? bytes - reserve : 0;
    }
    if (given > 0) {
        given = given > 2 * BUILD_BYTES ? given - BUILD_BYTES : given / 2;
        bytes = given < bytes ? given : bytes;
    }
    if (governor->headroom.stalled > STALLED && running_bytes(governor) < bytes)
        bytes = running_bytes(governor); /* with swap, free memory alone is not meaningful */
    return bytes;
}

/* The user's number, else the cores that other programs do not use. */
static unsigned slots_of(const struct af_governor *governor)
{
    unsigned taken = (unsigned)(governor->others_cores + 0.5);
    unsigned free_cores = taken >= governor->cores_seen ? 1 : governor->cores_seen - taken;
    unsigned slots = free_cores < governor->cores ? free_cores : governor->cores;
    slots = governor->options->slots > 0 ? governor->options->slots : slots;
    return slots < AF_GOVERN_JOBS_MAX ? slots : AF_GOVERN_JOBS_MAX;
}

void af_jobs_report(struct af_governor *governor, enum af_govern_event_kind kind,
                    const struct af_job *job, uint64_t peak_bytes)
{
    double now = af_govern_now();
    struct af_govern_event event = {.kind = kind,
                                    .file = job == NULL ? NULL : &job->prediction,
                                    .peak_bytes = peak_bytes,
                                    .seconds = job == NULL ? 0 : now - job->started,
                                    .cpu_seconds = job == NULL ? 0 : job->cpu_seconds,
                                    .rows = governor->rows,
                                    .ended_count = governor->result.ended_count,
                                    .why = governor->why,
                                    .used_bytes = running_bytes(governor),
                                    .budget_bytes = budget_of(governor)};
    if (governor->options->event == NULL)
        return;
    for (size_t i = 0; i < governor->options->job_count; i++) {
        const struct af_job *each = &governor->jobs[i];
        bool running = each->state == AF_JOB_RUNNING;
        if (each->state == AF_JOB_ENDED || (each == job && kind != AF_GOVERN_STARTED))
            continue;
        governor->rows[event.row_count++] = (struct af_govern_row){
            &each->prediction, each->state, each->resident_bytes,
            running ? now - each->started : 0, running ? each->cpu_seconds : 0};
    }
    governor->options->event(governor->options->event_context, &event);
}

void af_jobs_message(struct af_governor *governor, const char *format, ...)
{
    char text[AF_GOVERN_REASON_BYTES];
    struct af_govern_event event = {.kind = AF_GOVERN_REMARK, .remark = text};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(governor->options->output, "anyflash: %s\n", text);
    if (governor->options->event != NULL)
        governor->options->event(governor->options->event_context, &event);
}

bool af_jobs_any(const struct af_governor *governor, enum af_job_state state)
{
    for (size_t i = 0; i < governor->options->job_count; i++) {
        if (governor->jobs[i].state == state)
            return true;
    }
    return false;
}

struct af_job *af_jobs_find(struct af_governor *governor, pid_t pid)
{
    for (size_t i = 0; i < governor->options->job_count; i++) {
        if (governor->jobs[i].state == AF_JOB_RUNNING && governor->jobs[i].group == pid)
            return &governor->jobs[i];
    }
    return NULL;
}

/* The job failed for this reason, which its output does not contain. */
static void give_up(struct af_governor *governor, const struct af_job *job, const char *format,
                    ...) AF_PRINTF(3, 4);

static void give_up(struct af_governor *governor, const struct af_job *job, const char *format,
                    ...)
{
    char text[AF_GOVERN_REASON_BYTES - AF_GOVERN_FILE_BYTES - 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    af_jobs_message(governor, "error: %s %s", job->prediction.file, text);
    if (governor->result.failed == NULL)
        snprintf(governor->result.reason, sizeof governor->result.reason, "%s %s",
                 job->prediction.file, text);
}

static void fail(struct af_governor *governor, struct af_job *job, uint64_t peak)
{
    job->state = AF_JOB_ENDED;
    governor->result.failed_count++;
    if (governor->result.failed == NULL)
        governor->result.failed = job->call;
    af_jobs_report(governor, AF_GOVERN_FAILED, job, peak);
}

static void start(struct af_governor *governor, struct af_job *job)
{
    job->in_tail = job->stopped = job->hung = job->remarked = job->warned = false;
    job->kills_before = governor->headroom.kills;
    job->started = job->worked = af_govern_now();
    job->resident_bytes = job->resident_peak = 0;
    job->user_seconds = job->cpu_seconds = 0;
    if (!af_compiler_start(governor, job)) {
        give_up(governor, job, "cannot be compiled: %s", strerror(errno));
        fail(governor, job, 0);
        return;
    }
    job->state = AF_JOB_RUNNING;
    af_jobs_report(governor, AF_GOVERN_STARTED, job, 0);
}

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

/* Measures memory again after a compiler ended, but acts on nothing. */
static void measure(struct af_governor *governor)
{
    struct af_tree trees[AF_GOVERN_JOBS_MAX];
    struct af_job *of[AF_GOVERN_JOBS_MAX];
    peek_headroom(governor, &governor->headroom);
    sample_running(governor, trees, of);
    governor->freed = false;
}

/* A compiler ended for lack of memory: wait until new samples show how much is free. */
static bool is_calming(const struct af_governor *governor)
{
    return af_govern_now() - governor->memory_freed_at < CALM_SECONDS &&
           af_jobs_any(governor, AF_JOB_RUNNING);
}

void af_jobs_admit(struct af_governor *governor)
{
    if (is_calming(governor)) {
        governor->why = AF_ADMIT_MEMORY;
        return;
    }
    if (governor->freed && af_jobs_any(governor, AF_JOB_WAITING))
        measure(governor);
    while (governor->result.failed == NULL) {
        struct af_admit_answer answer = af_admit(governor->jobs, governor->options->job_count,
                                                 budget_of(governor), slots_of(governor));
        governor->why = answer.why;
        if (answer.why != AF_ADMIT_NOW)
            return;
        start(governor, &governor->jobs[answer.job]);
    }
}

/* This job needs at least `bytes`, and so do all of its kind. */
static void raise_need(struct af_governor *governor, const struct af_job *of, uint64_t bytes)
{
    for (size_t i = 0; i < governor->options->job_count; i++) {
        struct af_prediction *prediction = &governor->jobs[i].prediction;
        if (prediction->bytes < bytes && strcmp(prediction->key, of->prediction.key) == 0)
            prediction->bytes = bytes;
    }
}

static enum af_end_cause cause_of(struct af_governor *governor, const struct af_job *job,
                                  int code, uint64_t peak)
{
    struct af_headroom headroom;
    peek_headroom(governor, &headroom);
    const struct af_end end = {.code = code,
                               .stopped = job->stopped,
                               .hung = job->hung,
                               .alone = job->alone,
                               .kernel_killed = headroom.kills > job->kills_before,
                               .at_limit = governor->at_limit,
                               .need_bytes = job->prediction.bytes,
                               .peak_bytes = peak};
    return af_end_cause(&end);
}

/* Puts it back into the waiting state. */
static void repeat(struct af_governor *governor, struct af_job *job,
                   enum af_govern_event_kind kind, uint64_t peak)
{
    af_jobs_report(governor, kind, job, peak);
    job->state = AF_JOB_WAITING;
    job->resident_bytes = 0;
}

/*
 * Killed or stopped for lack of memory: repeated, and alone if it exceeded its
 * prediction or if it happens again. A compiler within its prediction is not
 * the cause: the limit was lowered, or another process used more.
 */
static bool repeat_when_memory_allows(struct af_governor *governor, struct af_job *job,
                                      uint64_t peak)
{
    bool exceeded = af_end_exceeds_prediction(job->prediction.bytes, peak);
    governor->memory_freed_at = af_govern_now();
    governor->result.killed_count += !job->stopped;
    if (++job->memory_kill_count >= af_end_retry_limit(AF_END_MEMORY)) {
        give_up(governor, job, "was killed %u times for lack of memory, at %.1f GiB",
                job->memory_kill_count, (double)peak / GIB);
        return false;
    }
    job->alone = job->memory_kill_count > (unsigned)job->stopped + !exceeded;
    if (exceeded)
        raise_need(governor, job, (uint64_t)((double)peak * RAISE));
    repeat(governor, job, job->stopped ? AF_GOVERN_STALLED : AF_GOVERN_KILLED, peak);
    return true;
}

/* A crash, a hang or a signal from outside: repeated, or reported if it happens too often. */
static bool repeat_unchanged(struct af_governor *governor, struct af_job *job,
                             enum af_end_cause cause, int code, uint64_t peak)
{
    unsigned *times = cause == AF_END_SIGNALLED ? &job->signalled_count : &job->crash_count;
    governor->result.crashed_count++;
    if (++*times < af_end_retry_limit(cause)) {
        repeat(governor, job, cause == AF_END_HUNG ? AF_GOVERN_HUNG : AF_GOVERN_CRASHED, peak);
        return true;
    }
    if (cause == AF_END_HUNG)
        give_up(governor, job, "hangs: it used no processor time, %u times", *times);
    else
        give_up(governor, job, "was killed by signal %d, %u times", code - 128, *times);
    return false;
}

/* Whether it is repeated; else it has failed. */
static bool is_repeated(struct af_governor *governor, struct af_job *job, int code,
                        uint64_t peak)
{
    enum af_end_cause cause = cause_of(governor, job, code, peak);
    if (cause == AF_END_FAILED)
        return false;
    return cause == AF_END_MEMORY ? repeat_when_memory_allows(governor, job, peak)
                                  : repeat_unchanged(governor, job, cause, code, peak);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + 1e-6 * (double)time->tv_usec;
}

void af_jobs_end(struct af_governor *governor, struct af_job *job, int status,
                 const struct rusage *usage)
{
    uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    peak = peak > job->resident_peak ? peak : job->resident_peak;
    job->cpu_seconds = seconds_of(&usage->ru_utime) + seconds_of(&usage->ru_stime);
    af_compiler_end(governor, job);
    governor->freed = true;
    bool repeated = code != 0 && is_repeated(governor, job, code, peak);
    bool succeeded = code == 0 && af_compiler_keep_object(job);
    if (code == 0 && !succeeded)
        give_up(governor, job, "was not compiled: %s", strerror(errno));
    af_compiler_keep_output(governor, job, !repeated && !succeeded);
    if (succeeded) {
        job->state = AF_JOB_ENDED;
        governor->result.ended_count++;
        raise_need(governor, job, peak);
        af_jobs_report(governor, AF_GOVERN_ENDED, job, peak);
    } else if (!repeated) {
        fail(governor, job, peak);
    }
}

void af_jobs_kill(struct af_governor *governor)
{
    for (size_t i = 0; i < governor->options->job_count; i++) {
        if (governor->jobs[i].state == AF_JOB_RUNNING)
            af_tree_kill(governor->jobs[i].group);
    }
}

static bool is_at_limit(const struct af_governor *governor)
{
    const struct af_headroom *headroom = &governor->headroom;
    return headroom->left_bytes < headroom->limit_bytes / TIGHT_SHARE ||
           headroom->stalled > LIMIT_STALLED || headroom->waits ||
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
