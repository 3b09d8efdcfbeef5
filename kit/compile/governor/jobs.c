/*
 * jobs.c: a compiler call from its start to its end: started when there is memory
 * for it, repeated if it was killed, and measured.
 */
#include "kit/compile/governor/jobs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/compile/governor/process_tree.h"

#define RAISE 1.25       /* a killed compiler is predicted to need 1.25 times its peak */
#define RESERVE_SHARE 50 /* 1/50 of the limit is kept free */
#define RESERVE_MAX (UINT64_C(1) << 30)
#define BUILD_BYTES (UINT64_C(64) << 20) /* this program */
#define CALM_SECONDS 1.0 /* after a kill for memory nothing starts for this long */
#define STALLED 0.2      /* share of time waited for memory above which nothing more starts */
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
            &each->prediction, running ? AF_ADMIT_RUNNING : AF_ADMIT_WAITING,
            each->resident_bytes, running ? now - each->started : 0,
            running ? each->cpu_seconds : 0};
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

/* A compiler ended for lack of memory: wait until new samples show how much is free. */
static bool is_calming(const struct af_governor *governor)
{
    return af_govern_now() - governor->memory_freed_at < CALM_SECONDS &&
           af_jobs_any(governor, AF_JOB_RUNNING);
}

/* The waiting and running jobs as input of af_admit(); of[i] is the job of row i. */
static size_t rows_for_admission(struct af_governor *governor, size_t *of)
{
    size_t count = 0;
    for (size_t i = 0; i < governor->options->job_count; i++) {
        const struct af_job *job = &governor->jobs[i];
        bool running = job->state == AF_JOB_RUNNING;
        if (job->state == AF_JOB_ENDED)
            continue;
        of[count] = i;
        governor->admit_rows[count++] =
            (struct af_admit_job){.state = running ? AF_ADMIT_RUNNING : AF_ADMIT_WAITING,
                                  .need_bytes = af_demand_bytes(job),
                                  .resident_bytes = running ? job->resident_bytes : 0,
                                  .seconds = job->prediction.seconds,
                                  .alone = job->alone};
    }
    return count;
}

void af_jobs_admit(struct af_governor *governor)
{
    if (is_calming(governor)) {
        governor->why = AF_ADMIT_MEMORY;
        return;
    }
    if (governor->freed && af_jobs_any(governor, AF_JOB_WAITING))
        af_jobs_measure(governor);
    while (governor->result.failed == NULL) {
        size_t count = rows_for_admission(governor, governor->admit_of);
        const struct af_admit_limits limits = {budget_of(governor), slots_of(governor)};
        struct af_admit_answer answer = af_admit(governor->admit_rows, count, &limits);
        governor->why = answer.why;
        if (answer.why != AF_ADMIT_NOW)
            return;
        start(governor, &governor->jobs[governor->admit_of[answer.job]]);
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
    struct af_headroom_previous before = governor->headroom_previous;
    af_jobs_read_headroom(governor, &headroom);
    governor->headroom_previous = before; /* the next sample compares with the last one */
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
