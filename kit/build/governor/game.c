/*
 * game.c: compilers start, rise, are paused and end as the plan and the bank
 * let them, from one change to the next; step by step where peaks overlap.
 */
#include "kit/build/governor/game.h"

#include <math.h>
#include <stdlib.h>

#include "kit/build/governor/bank.h"

#define EARLY 4    /* so much growth must be possible for an early start */
#define STEPS 400  /* to the end of a game, where peaks overlap */
#define LONGER 1.1 /* than what one has taken already */
#define SOON 1e-6
#define LEAST_SECONDS 0.01
#define MOST_SECONDS 1e7

struct entry {
    double weight; /* the heaviest is first in line */
    size_t job;
};

struct run {
    uint64_t need, careful, tail;
    double total, done; /* seconds of work */
    bool rises, alone, paused;
};

struct game {
    const struct af_admit_job *jobs;
    const struct af_admit_room *room;
    const struct af_game_plan *plan;
    struct entry line[AF_ADMIT_JOBS_MAX];
    struct run runs[AF_ADMIT_JOBS_MAX];
    size_t waiting, running;
    uint64_t used;    /* by those that run, with their peaks to come */
    uint64_t refused; /* so large a job could not end in turn, at this time */
    double now, step;
    struct af_game_end end;
};

static int heavier_first(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->job < y->job ? -1 : x->job > y->job;
}

static double within(double seconds, double least)
{
    seconds = seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
    return seconds > least ? seconds : least;
}

static struct run run_of(const struct af_admit_job *job)
{
    double done = within(job->elapsed, 0); /* longer than predicted: it ends soon, perhaps */
    bool fits = job->resident_bytes <= job->need_bytes;
    uint64_t need = fits ? job->need_bytes : job->resident_bytes;
    return (struct run){
        .need = need,
        .careful = job->careful_bytes > need ? job->careful_bytes : need,
        .tail = job->tail_bytes,
        .total = within(job->seconds, done * LONGER + LEAST_SECONDS),
        .done = done,
        .rises = job->rises,
        .alone = job->alone,
        .paused = job->paused,
    };
}

static void set_up(struct game *game, const struct af_admit_job *jobs, size_t count,
                   const struct af_admit_room *room, const struct af_game_plan *plan)
{
    double work = 0;
    game->jobs = jobs;
    game->room = room;
    game->plan = plan;
    game->waiting = game->running = 0;
    game->now = 0;
    game->end = (struct af_game_end){.start = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        const struct af_admit_job *job = &jobs[i];
        work += within(job->seconds, LEAST_SECONDS);
        if (job->state == AF_ADMIT_RUNNING) {
            game->runs[game->running++] = run_of(job);
        } else {
            double size =
                plan->order == AF_GAME_BY_SECONDS ? job->seconds : (double)job->need_bytes;
            game->line[game->waiting++] = (struct entry){job->alone ? INFINITY : size, i};
        }
    }
    game->step = work / STEPS;
    qsort(game->line, game->waiting, sizeof *game->line, heavier_first);
}

/* Seconds of work until its peak is over, or until it ends. */
static double to_change(const struct run *run)
{
    double peak = AF_ADMIT_RISE * run->total;
    return run->rises && run->done < peak ? peak - run->done : run->total - run->done;
}

/* What it must be counted with after `seconds` more of work. */
static uint64_t bytes_after(const struct run *run, double seconds)
{
    if (run->done + seconds >= run->total - SOON)
        return 0;
    bool past = run->rises && run->done + seconds >= AF_ADMIT_RISE * run->total - SOON;
    return past ? run->tail : run->need;
}

static uint64_t used_after(const struct game *game, double seconds)
{
    uint64_t used = 0;
    for (size_t i = 0; i < game->running; i++)
        used += bytes_after(&game->runs[i], seconds);
    return used;
}

static size_t working(const struct game *game)
{
    size_t count = 0;
    for (size_t i = 0; i < game->running; i++)
        count += !game->runs[i].paused;
    return count;
}

/* The first time after `after` at which a run has ended or is past its peak; or INFINITY. */
static double next_change(const struct game *game, double after)
{
    double next = INFINITY;
    for (size_t i = 0; i < game->running; i++) {
        const struct run *run = &game->runs[i];
        double times[] = {to_change(run), run->total - run->done};
        for (size_t k = 0; k < AF_COUNT(times); k++)
            next = times[k] > after && times[k] < next ? times[k] : next;
    }
    return next;
}

/* In what time a job could start as those that run go on; *spare_out is the room beside it. */
static double start_of(const struct game *game, const struct af_admit_job *job,
                       uint64_t *spare_out)
{
    double time = 0;
    uint64_t used;
    *spare_out = 0;
    while ((used = used_after(game, time)) + job->need_bytes > game->room->budget_bytes) {
        double next = next_change(game, time);
        if (isinf(next))
            return time; /* never fits: it will start when nothing runs */
        time = next;
    }
    *spare_out = game->room->budget_bytes - used - job->need_bytes;
    return time;
}

/* What it takes after `seconds` more, if nothing pauses it; at its peak with the margin. */
static uint64_t taken_after(const struct run *run, double seconds)
{
    double peak = AF_ADMIT_RISE * run->total;
    double done = run->done + (run->paused ? 0 : seconds);
    if (done > run->total)
        return 0;
    if (!run->rises)
        return run->need;
    return done <= peak + SOON ? (uint64_t)((double)run->careful * done / peak) : run->tail;
}

static bool has_room(const struct game *game, const struct run *one, double time)
{
    uint64_t bytes = taken_after(one, time);
    for (size_t i = 0; i < game->running; i++)
        bytes += taken_after(&game->runs[i], time);
    return bytes <= game->room->budget_bytes;
}

/* Whether there is room for each peak to come when it starts now. */
static bool peaks_miss(const struct game *game, const struct run *one)
{
    if (!has_room(game, one, to_change(one)))
        return false;
    for (size_t i = 0; i < game->running; i++) {
        double peak = to_change(&game->runs[i]);
        if (!game->runs[i].paused && peak <= one->total && !has_room(game, one, peak))
            return false;
    }
    return true;
}

/* What one that rises has taken by now. */
static uint64_t held(const struct run *run)
{
    double peak = AF_ADMIT_RISE * run->total;
    uint64_t now = bytes_after(run, 0);
    return run->rises && run->done < peak ? (uint64_t)((double)run->need * run->done / peak)
                                          : now;
}

static struct af_bank_job row_of(const struct run *run)
{
    uint64_t needs = bytes_after(run, 0);
    return (struct af_bank_job){.need_bytes = needs == run->need ? run->careful : needs,
                                .resident_bytes = held(run),
                                .elapsed = run->done,
                                .paused = run->paused};
}

/* What one may grow in a step. */
static uint64_t growth(const struct game *game)
{
    double most = 0;
    for (size_t i = 0; i < game->running; i++) {
        const struct run *run = &game->runs[i];
        double rise = run->rises ? (double)run->need / (AF_ADMIT_RISE * run->total) : 0;
        most = rise > most ? rise : most;
    }
    most *= game->step;
    return most > (double)game->room->growth_bytes ? (uint64_t)most : game->room->growth_bytes;
}

/* Whether all can end in turn when it starts now, and soon nobody has to be paused. */
static bool is_safe_with(const struct game *game, const struct run *one)
{
    struct af_bank_job rows[AF_ADMIT_JOBS_MAX];
    size_t count = 0;
    if (game->running == AF_ADMIT_JOBS_MAX)
        return false;
    for (size_t i = 0; i < game->running; i++)
        rows[count++] = row_of(&game->runs[i]);
    rows[count++] = row_of(one);
    return af_bank_is_safe(rows, count, game->room->budget_bytes,
                           EARLY * game->room->growth_bytes);
}

/* Whether it may start, and as one whose peak does not fit only with `peaks`. */
static bool may_start(struct game *game, const struct af_admit_job *job,
                      enum af_game_peaks peaks)
{
    struct run one = run_of(job);
    if (game->running == 0)
        return true;
    if (job->alone || game->runs[0].alone)
        return false;
    if (game->used + one.need <= game->room->budget_bytes)
        return true;
    if (peaks == AF_GAME_FIT || !one.rises || one.careful >= game->refused)
        return false;
    if (is_safe_with(game, &one))
        return peaks == AF_GAME_IN_TURN || peaks_miss(game, &one);
    game->refused = one.careful;
    return false;
}

static void count_used(struct game *game)
{
    game->used = used_after(game, 0);
    game->refused = UINT64_MAX;
}

static void begin(struct game *game, size_t at)
{
    if (game->now == 0 && game->end.start == SIZE_MAX)
        game->end.start = game->line[at].job;
    game->runs[game->running++] = run_of(&game->jobs[game->line[at].job]);
    count_used(game);
}

/* Starts all that fit and that the plan lets start at this time. */
static void start_all(struct game *game)
{
    size_t slots = game->room->slots == 0 ? 1 : game->room->slots;
    size_t busy = working(game);
    size_t kept = 0;
    enum af_game_peaks peaks = game->plan->peaks == AF_GAME_MISS ? AF_GAME_MISS : AF_GAME_FIT;
    bool held_back = false;
    double start = 0;
    uint64_t spare = 0;
    for (size_t i = 0; i < game->waiting; i++) {
        const struct af_admit_job *job = &game->jobs[game->line[i].job];
        bool lets = !held_back || job->seconds <= start || job->need_bytes <= spare;
        if (busy < slots && lets && may_start(game, job, peaks)) {
            if (held_back && job->seconds > start)
                spare -= job->need_bytes;
            begin(game, i);
            busy++;
            continue;
        }
        game->line[kept++] = game->line[i];
        game->end.waited |= busy < slots;
        if (game->plan->holds && !held_back && busy < slots) {
            held_back = true;
            start = start_of(game, job, &spare);
        }
    }
    game->waiting = kept;
}

/* Starts the last in line that may, although its peak does not fit. */
static void start_last(struct game *game)
{
    size_t slots = game->room->slots == 0 ? 1 : game->room->slots;
    for (size_t i = game->waiting; i-- > 0 && working(game) < slots;) {
        if (!may_start(game, &game->jobs[game->line[i].job], AF_GAME_IN_TURN))
            continue;
        begin(game, i);
        game->waiting--;
        for (size_t k = i; k < game->waiting; k++)
            game->line[k] = game->line[k + 1];
    }
}

/* Whether one is paused or may have to be. */
static bool overlaps(const struct game *game)
{
    uint64_t needs = 0;
    bool paused = false;
    for (size_t i = 0; i < game->running; i++) {
        needs += row_of(&game->runs[i]).need_bytes;
        paused |= game->runs[i].paused;
    }
    return paused || needs > game->room->budget_bytes;
}

/* Pauses and resumes as peaks demand it. */
static void settle(struct game *game)
{
    struct af_bank_job rows[AF_ADMIT_JOBS_MAX];
    for (size_t i = 0; i < game->running; i++)
        rows[i] = row_of(&game->runs[i]);
    for (size_t i = 0; i < game->running + 1; i++) {
        size_t at = af_bank_change(rows, game->running, game->room->budget_bytes, growth(game));
        if (at == SIZE_MAX)
            break;
        game->runs[at].paused = rows[at].paused;
    }
}

/* Time goes on until something changes. */
static void go_on(struct game *game)
{
    double slots = game->room->slots == 0 ? 1 : game->room->slots;
    double busy = (double)working(game);
    double rate = busy > slots ? slots / busy : 1;
    double work = overlaps(game) ? game->step : INFINITY;
    for (size_t i = 0; i < game->running; i++) {
        double change = to_change(&game->runs[i]);
        work = !game->runs[i].paused && change < work ? change : work;
    }
    game->now += work / rate;
    for (size_t i = game->running; i-- > 0;) {
        struct run *run = &game->runs[i];
        run->done += run->paused ? 0 : work + SOON;
        if (run->done >= run->total)
            *run = game->runs[--game->running];
    }
}

struct af_game_end af_game_play(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_room *room,
                                const struct af_game_plan *plan)
{
    struct game game;
    set_up(&game, jobs, count, room, plan);
    for (;;) {
        if (overlaps(&game))
            settle(&game);
        count_used(&game);
        start_all(&game);
        if (plan->peaks == AF_GAME_IN_TURN)
            start_last(&game);
        if (game.running == 0)
            break;
        go_on(&game);
    }
    game.end.seconds = game.now;
    return game.end;
}
