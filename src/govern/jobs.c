/*
 * jobs.c: what happens to compilers between their gate's question and the
 * answer that ends it.
 */
#include "govern/jobs.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "govern/costs.h"
#include "govern/tree.h"

#define ARGUMENTS_MAX 1024
#define KILLS_MAX 4        /* then its failure is reported */
#define RAISE 1.25         /* what a killed one is taken to need, over what it had */
#define HANG_SECONDS 600.0 /* without any processor time */
#define RESERVE_SHARE 50   /* 1/50 of the limit stays free */
#define RESERVE_MAX (UINT64_C(1) << 30)
#define BUILD_BYTES (UINT64_C(512) << 20) /* setup.py, torch and ninja themselves */
#define TIGHT_SHARE 40                    /* less than 1/40 left is "at the limit" */

double af_govern_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void af_jobs_room(struct af_governor *governor, struct af_room *room_out)
{
    const char *group = governor->confine.folder;
    af_room_read(governor->options->root, group[0] == '\0' ? NULL : group,
                 &governor->room_before, room_out);
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

/* What all compilers may take together, those that run included. */
static uint64_t budget(const struct af_governor *governor)
{
    uint64_t bytes = AF_ROOM_UNLIMITED;
    uint64_t given = governor->options->memory_bytes;
    if (governor->room.left_bytes != AF_ROOM_UNLIMITED) {
        uint64_t reserve = governor->room.limit_bytes / RESERVE_SHARE;
        bytes = governor->room.left_bytes + running_bytes(governor);
        reserve = reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
        bytes = bytes > reserve ? bytes - reserve : 0;
    }
    if (given > 0) {
        given = given > 2 * BUILD_BYTES ? given - BUILD_BYTES : given / 2;
        bytes = given < bytes ? given : bytes;
    }
    return bytes;
}

/* Fewer than the cores while others need some of them; the user's own number stands. */
static unsigned slots(const struct af_governor *governor)
{
    if (governor->options->slots > 0)
        return governor->options->slots;
    unsigned taken = (unsigned)(governor->others_cores + 0.5);
    return taken >= governor->cores ? 1 : governor->cores - taken;
}

/* The jobs as af_admit() takes them, and which job each is. */
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
        bool running = job->state == AF_JOB_RUNNING;
        of[count] = i;
        rows[count++] = (struct af_admit_job){
            .state = running ? AF_ADMIT_RUNNING : AF_ADMIT_WAITING,
            .need_bytes = job->prediction.bytes,
            .resident_bytes = running ? job->resident_bytes : 0,
            .seconds = job->prediction.seconds,
            .elapsed = running ? now - job->started : 0,
            .alone = job->alone,
        };
    }
    return count;
}

void af_jobs_tell(struct af_governor *governor, enum af_govern_event_kind kind,
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
                                    .budget_bytes = budget(governor)};
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

static void start(struct af_governor *governor, struct af_job *job)
{
    governor->message = (struct af_message){.say = AF_SAY_GO};
    job->state = AF_JOB_RUNNING;
    job->group = 0;
    job->stopped = false;
    job->started = job->worked = af_govern_now();
    job->resident_bytes = job->resident_peak = 0;
    job->user_seconds = job->cpu_seconds = 0;
    af_channel_send(job->fd, &governor->message); /* a gate that is gone shows at its socket */
    af_jobs_tell(governor, AF_GOVERN_STARTED, job, 0);
}

void af_jobs_admit(struct af_governor *governor)
{
    static const struct af_admit_room nothing = {0};
    struct af_admit_job rows[AF_GOVERN_JOBS_MAX];
    size_t of[AF_GOVERN_JOBS_MAX];
    struct af_admit_room room = nothing;
    for (;;) {
        size_t count = rows_for_admission(governor, rows, of);
        room = (struct af_admit_room){budget(governor), slots(governor)};
        struct af_admit_answer answer = af_admit(rows, count, &room);
        governor->why = answer.why;
        governor->first =
            answer.job == SIZE_MAX ? NULL : &governor->jobs[of[answer.job]].prediction;
        if (answer.why != AF_ADMIT_NOW)
            return;
        start(governor, &governor->jobs[of[answer.job]]);
    }
}

/* What it asks for, as the caller predicts it and as it was learned. */
static bool take_ask(struct af_governor *governor, struct af_job *job)
{
    const char *argv[ARGUMENTS_MAX + 1];
    size_t count = 0;
    size_t at = 0;
    const char *word = af_message_word(&governor->message, &at); /* the folder */
    if (job->state != AF_JOB_NEW || word == NULL)
        return false;
    while ((word = af_message_word(&governor->message, &at)) != NULL && count < ARGUMENTS_MAX)
        argv[count++] = word;
    argv[count] = NULL;
    if (count == 0)
        return false;
    governor->options->predict(governor->options->context, argv, &job->prediction);
    af_costs_correct(governor->state, &job->prediction);
    job->state = AF_JOB_WAITING;
    return true;
}

/* The last word for a gate. */
static void finish(struct af_governor *governor, struct af_job *job, int code)
{
    governor->message = (struct af_message){.say = AF_SAY_OVER, .status = code};
    job->state = AF_JOB_NEW;
    job->group = 0;
    af_channel_send(job->fd, &governor->message);
}

/* Whether memory was short when it was killed: else it was somebody's choice. */
static bool memory_was_short(struct af_governor *governor)
{
    struct af_room room;
    struct af_room_before before = governor->room_before;
    af_jobs_room(governor, &room);
    governor->room_before = before; /* the next look measures from the last one */
    bool killed = room.kills > governor->kills_seen;
    governor->kills_seen = room.kills;
    return killed || running_bytes(governor) > budget(governor) / 10 * 9;
}

/* Killed: it waits again, with more room, or is given up. */
static void repeat(struct af_governor *governor, struct af_job *job, uint64_t peak)
{
    bool shortage = job->stopped || memory_was_short(governor);
    enum af_govern_event_kind kind = job->stopped ? AF_GOVERN_STANDSTILL : AF_GOVERN_KILLED;
    governor->result.killed_count += !job->stopped;
    job->kills++;
    if (shortage) {
        uint64_t more = (uint64_t)((double)peak * RAISE);
        job->alone = !job->stopped; /* after a standstill it only waits for its room */
        if (more > job->prediction.bytes)
            job->prediction.bytes = more;
        af_costs_raise(governor->state, &job->prediction, more);
    }
    af_jobs_tell(governor, kind, job, peak);
    job->state = AF_JOB_WAITING;
    job->group = 0;
    job->resident_bytes = 0;
}

static bool take_end(struct af_governor *governor, struct af_job *job)
{
    int status = governor->message.status;
    double seconds = governor->message.cpu_seconds;
    uint64_t peak = governor->message.peak_bytes;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (job->state != AF_JOB_RUNNING)
        return false;
    peak = peak > job->resident_peak ? peak : job->resident_peak;
    job->cpu_seconds = seconds;
    if (code == 128 + SIGKILL && job->kills + 1 < KILLS_MAX) {
        repeat(governor, job, peak);
        return true;
    }
    if (code == 0) {
        governor->result.ended_count++;
        af_costs_learn(governor->state, &job->prediction, peak, seconds);
    } else {
        governor->result.failed_count++;
    }
    af_jobs_tell(governor, code == 0 ? AF_GOVERN_ENDED : AF_GOVERN_FAILED, job, peak);
    finish(governor, job, code);
    return true;
}

static void remove_job(struct af_governor *governor, size_t at)
{
    struct af_job *job = &governor->jobs[at];
    af_tree_kill(job->group);
    close(job->fd);
    governor->first = NULL;
    governor->job_count--;
    memmove(job, job + 1, (governor->job_count - at) * sizeof *job);
}

bool af_jobs_hear(struct af_governor *governor, size_t at)
{
    struct af_job *job = &governor->jobs[at];
    bool good = af_channel_receive(job->fd, &governor->message);
    if (good && governor->message.say == AF_SAY_ASK)
        good = take_ask(governor, job);
    else if (good && governor->message.say == AF_SAY_STARTED)
        job->group = governor->message.group;
    else if (good && governor->message.say == AF_SAY_ENDED)
        good = take_end(governor, job);
    else
        good = false;
    if (!good)
        remove_job(governor, at);
    return good;
}

/* Stops the youngest; its gate reports the end, and it is repeated. Never the last. */
static void stop_youngest(struct af_governor *governor)
{
    struct af_job *youngest = NULL;
    size_t running = 0;
    for (size_t i = 0; i < governor->job_count; i++) {
        struct af_job *job = &governor->jobs[i];
        if (job->state != AF_JOB_RUNNING || job->group == 0)
            continue;
        running++;
        if (youngest == NULL || job->started > youngest->started)
            youngest = job;
    }
    if (running < 2)
        return;
    youngest->stopped = true;
    af_tree_kill(youngest->group);
}

/* One that has used no processor for long; killed as often as it may be, it fails. */
static void look_for_hanging(struct af_job *job, double now, double cpu_seconds)
{
    if (cpu_seconds > job->cpu_seconds + 0.01)
        job->worked = now;
    job->cpu_seconds = cpu_seconds;
    if (now - job->worked > HANG_SECONDS) {
        job->worked = now;
        af_tree_kill(job->group);
    }
}

/* Samples all compilers; the seconds that they worked since the last time. */
static double sample(struct af_governor *governor, double now, unsigned *running_out)
{
    struct af_tree trees[AF_GOVERN_JOBS_MAX];
    struct af_job *of[AF_GOVERN_JOBS_MAX];
    size_t count = 0;
    double worked = 0;
    for (size_t i = 0; i < governor->job_count; i++) {
        if (governor->jobs[i].state == AF_JOB_RUNNING && governor->jobs[i].group != 0) {
            of[count] = &governor->jobs[i];
            trees[count++] = (struct af_tree){.group = governor->jobs[i].group};
        }
    }
    if (count > 0)
        af_tree_sample(trees, count);
    for (size_t i = 0; i < count; i++) {
        of[i]->resident_bytes = trees[i].resident_bytes;
        if (trees[i].resident_bytes > of[i]->resident_peak)
            of[i]->resident_peak = trees[i].resident_bytes;
        if (trees[i].user_seconds > of[i]->user_seconds)
            worked += trees[i].user_seconds - of[i]->user_seconds;
        of[i]->user_seconds = trees[i].user_seconds;
        look_for_hanging(of[i], now, trees[i].user_seconds + trees[i].system_seconds);
    }
    *running_out = (unsigned)count;
    return worked;
}

void af_jobs_look(struct af_governor *governor)
{
    double now = af_govern_now();
    struct af_standstill_look look = {.now = now, .interval = now - governor->looked};
    look.user_seconds = sample(governor, now, &look.running);
    af_jobs_room(governor, &governor->room);
    governor->others_cores = 0.9 * governor->others_cores + 0.1 * governor->room.others_cores;
    look.at_limit = governor->room.left_bytes < governor->room.limit_bytes / TIGHT_SHARE ||
                    (governor->looked > 0 && governor->room.limit_hits > governor->hits_seen);
    governor->hits_seen = governor->room.limit_hits;
    if (governor->looked > 0 && af_standstill_look(&governor->standstill, &look))
        stop_youngest(governor);
    governor->looked = now;
}

void af_jobs_end(struct af_governor *governor)
{
    while (governor->job_count > 0)
        remove_job(governor, governor->job_count - 1);
}
