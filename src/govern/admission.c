/*
 * admission.c: four ways to go on are played through; the one that ends first
 * says what starts now.
 */
#include "govern/admission.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* The bytes that a job is counted with. */
static uint64_t weight(const struct af_admit_job *job)
{
    return job->resident_bytes > job->need_bytes ? job->resident_bytes : job->need_bytes;
}

uint64_t af_admit_used(const struct af_admit_job *jobs, size_t count)
{
    uint64_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING)
            used += weight(&jobs[i]);
    }
    return used;
}

static size_t running_count(const struct af_admit_job *jobs, size_t count, bool *alone_out)
{
    size_t running = 0;
    *alone_out = false;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING) {
            running++;
            *alone_out |= jobs[i].alone;
        }
    }
    return running;
}

/* Those that must be alone before all others, then the longest, then the first to come. */
static bool goes_before(const struct af_admit_job *a, const struct af_admit_job *b)
{
    return a->alone != b->alone ? a->alone : a->seconds > b->seconds;
}

static size_t first_in_line(const struct af_admit_job *jobs, size_t count)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_WAITING &&
            (best == SIZE_MAX || goes_before(&jobs[i], &jobs[best])))
            best = i;
    }
    return best;
}

static double remaining(const struct af_admit_job *job)
{
    double left = job->seconds - job->elapsed;
    return left > 0 ? left : job->elapsed * 0.1; /* longer than predicted: soon, perhaps */
}

/*
 * A plan: the order of those that wait, and whether the first that does not fit
 * is delayed by those behind it. None is best for all, so each is played
 * through with what is predicted, and the one that ends first is followed.
 */
enum order { BY_SECONDS, BY_BYTES };

struct plan {
    enum order order;
    bool holds; /* room for the first in line */
};

static const struct plan plans[] = {
    {BY_SECONDS, true}, {BY_SECONDS, false}, {BY_BYTES, true}, {BY_BYTES, false}};

#define BETTER 0.99 /* a later plan must end earlier by this to be taken */

struct entry {
    double weight; /* the heaviest is first in line */
    size_t job;
};

struct run {
    double end;
    uint64_t bytes;
    bool alone;
};

/* A schedule that is played through. */
struct game {
    const struct af_admit_job *jobs;
    const struct af_admit_room *room;
    struct entry line[AF_ADMIT_JOBS_MAX];
    struct run runs[AF_ADMIT_JOBS_MAX];
    size_t waiting, running;
    uint64_t used;
    double now;
    size_t started_now; /* the first that started at time 0, or SIZE_MAX */
};

static int heavier_first(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->job < y->job ? -1 : x->job > y->job;
}

static void set_up(struct game *game, const struct af_admit_job *jobs, size_t count,
                   const struct af_admit_room *room, enum order order)
{
    game->jobs = jobs;
    game->room = room;
    game->waiting = game->running = 0;
    game->used = 0;
    game->now = 0;
    game->started_now = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct af_admit_job *job = &jobs[i];
        if (job->state == AF_ADMIT_RUNNING) {
            game->runs[game->running++] = (struct run){remaining(job), weight(job), job->alone};
            game->used += weight(job);
        } else {
            double size = order == BY_SECONDS ? job->seconds : (double)job->need_bytes;
            game->line[game->waiting++] = (struct entry){job->alone ? INFINITY : size, i};
        }
    }
    qsort(game->line, game->waiting, sizeof *game->line, heavier_first);
}

/* The run that ends first after `after`, or SIZE_MAX. */
static size_t next_end(const struct game *game, double after)
{
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < game->running; i++) {
        if (game->runs[i].end > after &&
            (next == SIZE_MAX || game->runs[i].end < game->runs[next].end))
            next = i;
    }
    return next;
}

/* When a job could start as those that run end; *spare_out is the room beside it then. */
static double start_of(const struct game *game, const struct af_admit_job *job,
                       uint64_t *spare_out)
{
    uint64_t used = game->used;
    double time = game->now;
    *spare_out = 0;
    while (used + job->need_bytes > game->room->budget_bytes) {
        size_t next = next_end(game, time);
        if (next == SIZE_MAX)
            return time; /* never fits: it will start when nothing runs */
        time = game->runs[next].end;
        for (size_t i = 0; i < game->running; i++)
            used -= game->runs[i].end == time ? game->runs[i].bytes : 0;
    }
    *spare_out = game->room->budget_bytes - used - job->need_bytes;
    return time;
}

static bool fits(const struct game *game, const struct af_admit_job *job)
{
    if (game->running == 0)
        return true;
    return !job->alone && !game->runs[0].alone &&
           game->used + job->need_bytes <= game->room->budget_bytes;
}

/* Starts all that the plan lets start at this time. */
static void start_all(struct game *game, bool holds)
{
    size_t slots = game->room->slots == 0 ? 1 : game->room->slots;
    size_t kept = 0;
    bool held = false;
    double start = 0;
    uint64_t spare = 0;
    for (size_t i = 0; i < game->waiting; i++) {
        const struct af_admit_job *job = &game->jobs[game->line[i].job];
        bool lets = !held || game->now + job->seconds <= start || job->need_bytes <= spare;
        if (game->running < slots && lets && fits(game, job)) {
            if (game->now == 0 && game->started_now == SIZE_MAX)
                game->started_now = game->line[i].job;
            if (held && game->now + job->seconds > start)
                spare -= job->need_bytes;
            game->runs[game->running++] =
                (struct run){game->now + job->seconds, job->need_bytes, job->alone};
            game->used += job->need_bytes;
            continue;
        }
        game->line[kept++] = game->line[i];
        if (holds && !held && game->running < slots) {
            held = true;
            start = start_of(game, job, &spare);
        }
    }
    game->waiting = kept;
}

/* Plays it to the end: when that is. */
static double play(struct game *game, bool holds)
{
    double end = 0;
    for (;;) {
        start_all(game, holds);
        for (size_t i = 0; i < game->running; i++)
            end = game->runs[i].end > end ? game->runs[i].end : end;
        if (game->waiting == 0)
            return end;
        double next = game->runs[next_end(game, -1)].end;
        game->now = next;
        for (size_t i = game->running; i-- > 0;) {
            if (game->runs[i].end > next)
                continue;
            game->used -= game->runs[i].bytes;
            game->runs[i] = game->runs[--game->running];
        }
    }
}

/* What the plan that ends first would start now, or SIZE_MAX. */
static size_t best_start(const struct af_admit_job *jobs, size_t count,
                         const struct af_admit_room *room)
{
    struct game game;
    double best = INFINITY;
    size_t start = SIZE_MAX;
    for (size_t i = 0; i < AF_COUNT(plans); i++) {
        set_up(&game, jobs, count, room, plans[i].order);
        double end = play(&game, plans[i].holds);
        if (end < BETTER * best) {
            best = end;
            start = game.started_now;
        }
    }
    return start;
}

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_room *room)
{
    bool alone;
    assert(count <= AF_ADMIT_JOBS_MAX);
    size_t running = running_count(jobs, count, &alone);
    size_t first = first_in_line(jobs, count);
    if (first == SIZE_MAX)
        return (struct af_admit_answer){AF_ADMIT_NOTHING, SIZE_MAX};
    if (alone)
        return (struct af_admit_answer){AF_ADMIT_ALONE_RUNS, first};
    if (jobs[first].alone)
        return (struct af_admit_answer){running == 0 ? AF_ADMIT_NOW : AF_ADMIT_FOR_ALONE,
                                        first};
    if (running >= (room->slots == 0 ? 1 : room->slots))
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    size_t start = best_start(jobs, count, room);
    return start == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                             : (struct af_admit_answer){AF_ADMIT_NOW, start};
}
