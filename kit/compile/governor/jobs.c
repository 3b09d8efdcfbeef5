/*
 * jobs.c: a compiler call from its wrapper's request to its end: predicted,
 * started, repeated if it was killed, and measured.
 */
#include "kit/compile/governor/jobs.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/compile/governor/process_tree.h"

#define ARGUMENTS_MAX 1024
#define RAISE 1.25       /* a killed compiler is predicted to need 1.25 times its peak */
#define RESERVE_SHARE 50 /* 1/50 of the limit is kept free */
#define RESERVE_MAX (UINT64_C(1) << 30)
#define BUILD_BYTES (UINT64_C(512) << 20) /* setup.py, torch and ninja */
#define SETTLE_SECONDS 0.03               /* between two requests of one ninja */
#define SETTLE_SECONDS_MAX 0.5
#define CALM_SECONDS 1.0 /* after a kill for memory nothing starts for this long */
#define STALLED 0.2      /* share of time waited for memory above which nothing more starts */
#define MESSAGE_BYTES 400
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

void af_jobs_add(struct af_governor *governor, int fd)
{
    if (governor->job_count == AF_GOVERN_JOBS_MAX) {
        close(fd);
        return;
    }
    governor->jobs[governor->job_count++] = (struct af_job){.fd = fd};
}

static uint64_t running_bytes(const struct af_governor *governor)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < governor->job_count; i++) {
        if (governor->jobs[i].state == AF_JOB_RUNNING)
            bytes += governor->jobs[i].resident_bytes;
    }
    return bytes;
}

uint64_t af_jobs_budget(const struct af_governor *governor)
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
    if (governor->options->slots > 0)
        return governor->options->slots;
    unsigned taken = (unsigned)(governor->others_cores + 0.5);
    unsigned free_cores = taken >= governor->cores_seen ? 1 : governor->cores_seen - taken;
    return free_cores < governor->cores ? free_cores : governor->cores;
}

/* The jobs as input of af_admit(), and which job each row is. */
static size_t rows_for_admission(const struct af_governor *governor,
                                 struct af_admit_job rows[AF_GOVERN_JOBS_MAX],
                                 size_t of[AF_GOVERN_JOBS_MAX])
{
    size_t count = 0;
    double now = af_govern_now();
    for (size_t i = 0; i < governor->job_count; i++) {
        const struct af_job *job = &governor->jobs[i];
        if (job->state == AF_JOB_NEW)
            continue;
        of[count] = i;
        rows[count++] = af_demand_admit_job(job, af_jobs_budget(governor), now - job->started);
    }
    return count;
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
                                    .first = governor->first,
                                    .used_bytes = running_bytes(governor),
                                    .budget_bytes = af_jobs_budget(governor)};
    if (governor->options->event == NULL)
        return;
    for (size_t i = 0; i < governor->job_count; i++) {
        const struct af_job *each = &governor->jobs[i];
        bool running = each->state == AF_JOB_RUNNING;
        if (each->state == AF_JOB_NEW || (each == job && kind != AF_GOVERN_STARTED))
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
    char text[MESSAGE_BYTES];
    struct af_govern_event event = {.kind = AF_GOVERN_REMARK, .remark = text};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(governor->options->output, "anyflash: %s\n", text);
    if (governor->options->event != NULL)
        governor->options->event(governor->options->event_context, &event);
}

static void start(struct af_governor *governor, struct af_job *job)
{
    governor->message = (struct af_message){.kind = AF_MESSAGE_START};
    job->state = AF_JOB_RUNNING;
    job->group = 0;
    job->in_tail = job->paused = job->stopped = job->hung = false;
    job->remarked = job->warned = false;
    job->kills_before = governor->headroom.kills;
    job->started = job->worked = af_govern_now();
    job->resident_bytes = job->resident_peak = 0;
    job->user_seconds = job->cpu_seconds = job->rise_seconds = 0;
    af_channel_send(job->fd,
                    &governor->message); /* if the wrapper is gone, its socket shows it */
    af_jobs_report(governor, AF_GOVERN_STARTED, job, 0);
}

static bool any_is(const struct af_governor *governor, enum af_job_state state)
{
    for (size_t i = 0; i < governor->job_count; i++) {
        if (governor->jobs[i].state == state)
            return true;
    }
    return false;
}

/* Whether nothing runs yet and wrappers still connect. */
static bool is_settling(const struct af_governor *governor)
{
    double now = af_govern_now();
    return any_is(governor, AF_JOB_WAITING) && !any_is(governor, AF_JOB_RUNNING) &&
           now - governor->requested_at < SETTLE_SECONDS &&
           now - governor->first_requested_at < SETTLE_SECONDS_MAX;
}

/* A compiler ended for lack of memory: wait until new samples show how much is free. */
static bool is_calming(const struct af_governor *governor)
{
    return af_govern_now() - governor->memory_freed_at < CALM_SECONDS &&
           any_is(governor, AF_JOB_RUNNING);
}

bool af_jobs_admit(struct af_governor *governor)
{
    static const struct af_admit_limits nothing = {0};
    struct af_admit_job rows[AF_GOVERN_JOBS_MAX];
    size_t of[AF_GOVERN_JOBS_MAX];
    struct af_admit_limits headroom = nothing;
    if (is_settling(governor))
        return false;
    if (is_calming(governor)) {
        governor->why = AF_ADMIT_MEMORY;
        return true;
    }
    if (governor->freed && any_is(governor, AF_JOB_WAITING))
        af_jobs_measure(governor);
    for (;;) {
        size_t count = rows_for_admission(governor, rows, of);
        headroom = (struct af_admit_limits){af_jobs_budget(governor), slots_of(governor),
                                            af_demand_growth(governor->headroom.limit_bytes)};
        struct af_admit_answer answer = af_admit(rows, count, &headroom);
        governor->why = answer.why;
        governor->first =
            answer.job == SIZE_MAX ? NULL : &governor->jobs[of[answer.job]].prediction;
        if (answer.why != AF_ADMIT_NOW)
            return true;
        start(governor, &governor->jobs[of[answer.job]]);
    }
}

/* A request: predicts what the call needs, with the measured cost if there is one. */
static bool handle_request(struct af_governor *governor, struct af_job *job)
{
    const char *argv[ARGUMENTS_MAX + 1];
    size_t count = 0;
    size_t at = 0;
    const char *word = af_message_word(&governor->message, &at); /* the working folder */
    if (job->state != AF_JOB_NEW || word == NULL)
        return false;
    while ((word = af_message_word(&governor->message, &at)) != NULL && count < ARGUMENTS_MAX)
        argv[count++] = word;
    argv[count] = NULL;
    if (count == 0)
        return false;
    governor->options->predict(governor->options->context, argv, &job->prediction);
    job->known = af_costs_known(&governor->costs, &job->prediction);
    governor->requested_at = af_govern_now();
    if (!any_is(governor, AF_JOB_WAITING))
        governor->first_requested_at = governor->requested_at;
    job->state = AF_JOB_WAITING;
    return true;
}

/* Ends the wrapper. */
static void finish(struct af_governor *governor, struct af_job *job, int code)
{
    governor->message = (struct af_message){.kind = AF_MESSAGE_EXIT, .status = code};
    job->state = AF_JOB_NEW;
    job->group = 0;
    af_channel_send(job->fd, &governor->message);
}

/* Corrects the predictions of all jobs of this kind by the latest measurement. */
static void correct_kind(struct af_governor *governor, const struct af_prediction *kind,
                         uint64_t bytes)
{
    struct af_prediction known = *kind;
    if (!af_costs_known(&governor->costs, &known) && bytes > known.bytes)
        known.bytes = bytes;
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state == AF_JOB_NEW || strcmp(job->prediction.key, known.key) != 0)
            continue;
        job->known = true;
        if (known.bytes > job->prediction.bytes ||
            (job->state == AF_JOB_WAITING && job->memory_kill_count == 0))
            job->prediction.bytes = known.bytes;
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
    job->group = 0;
    job->resident_bytes = 0;
}

/* It needs more than predicted, and so do all calls of its kind. */
static void raise_need(struct af_governor *governor, struct af_job *job, uint64_t peak)
{
    uint64_t more = (uint64_t)((double)peak * RAISE);
    if (more > job->prediction.bytes)
        job->prediction.bytes = more;
    af_costs_raise(&governor->costs, &job->prediction, more);
    correct_kind(governor, &job->prediction, more);
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
        af_jobs_message(governor,
                        "error: %s was killed %u times for lack of memory, at %.1f GiB",
                        job->prediction.file, job->memory_kill_count, (double)peak / GIB);
        return false;
    }
    job->alone = job->memory_kill_count > (unsigned)job->stopped + !exceeded;
    if (exceeded)
        raise_need(governor, job, peak);
    repeat(governor, job, job->stopped ? AF_GOVERN_STALLED : AF_GOVERN_KILLED, peak);
    return true;
}

/* A crash, a hang or a signal from outside: repeated, or reported if it happens too often. */
static bool repeat_unchanged(struct af_governor *governor, struct af_job *job,
                             enum af_end_cause cause, int code, uint64_t peak)
{
    const char *file = job->prediction.file;
    unsigned *times = cause == AF_END_SIGNALLED ? &job->signalled_count : &job->crash_count;
    governor->result.crashed_count++;
    if (++*times < af_end_retry_limit(cause)) {
        repeat(governor, job, cause == AF_END_HUNG ? AF_GOVERN_HUNG : AF_GOVERN_CRASHED, peak);
        return true;
    }
    if (cause == AF_END_HUNG)
        af_jobs_message(governor, "error: %s hangs: it used no processor time, %u times", file,
                        *times);
    else
        af_jobs_message(governor, "error: %s was killed by signal %d, %u times", file,
                        code - 128, *times);
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

static bool handle_end(struct af_governor *governor, struct af_job *job)
{
    int status = governor->message.status;
    double seconds = governor->message.cpu_seconds;
    uint64_t peak = governor->message.peak_bytes;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (job->state != AF_JOB_RUNNING)
        return false;
    peak = peak > job->resident_peak ? peak : job->resident_peak;
    job->cpu_seconds = seconds;
    governor->freed = true;
    if (code != 0 && is_repeated(governor, job, code, peak))
        return true;
    if (code == 0) {
        governor->result.ended_count++;
        af_costs_learn(&governor->costs, &job->prediction, peak, seconds);
        correct_kind(governor, &job->prediction, peak);
    } else {
        governor->result.failed_count++;
    }
    af_jobs_report(governor, code == 0 ? AF_GOVERN_ENDED : AF_GOVERN_FAILED, job, peak);
    finish(governor, job, code);
    return true;
}

static void remove_job(struct af_governor *governor, size_t at)
{
    struct af_job *job = &governor->jobs[at];
    if (job->group != 0) { /* its wrapper was killed: we adopt the processes that it leaves */
        af_tree_kill(job->group);
        governor->wrapper_lost_at = af_govern_now();
    }
    close(job->fd);
    governor->first = NULL;
    governor->job_count--;
    memmove(job, job + 1, (governor->job_count - at) * sizeof *job);
}

bool af_jobs_receive(struct af_governor *governor, size_t at)
{
    struct af_job *job = &governor->jobs[at];
    bool good = af_channel_receive(job->fd, &governor->message);
    if (good && governor->message.kind == AF_MESSAGE_REQUEST)
        good = handle_request(governor, job);
    else if (good && governor->message.kind == AF_MESSAGE_STARTED)
        job->group = governor->message.group;
    else if (good && governor->message.kind == AF_MESSAGE_ENDED)
        good = handle_end(governor, job);
    else
        good = false;
    if (!good)
        remove_job(governor, at);
    return good;
}

void af_jobs_end(struct af_governor *governor)
{
    while (governor->job_count > 0)
        remove_job(governor, governor->job_count - 1);
}
