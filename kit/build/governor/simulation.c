/*
 * simulation.c: compilers start, rise, are paused and end as the plan and the bank
 * let them, from one change to the next; step by step where peaks overlap.
 */
#include "kit/build/governor/simulation.h"

#include <math.h>
#include <stdlib.h>

#include "kit/build/governor/deadlock.h"

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

struct simulation {
    const struct af_admit_job *jobs;
    const struct af_admit_limits *limits;
    const struct af_simulation_policy *plan;
    struct entry line[AF_ADMIT_JOBS_MAX];
    struct run runs[AF_ADMIT_JOBS_MAX];
    size_t waiting, running;
    uint64_t used;    /* by those that run, with their peaks to come */
    uint64_t refused; /* so large a job could not end in turn, at this time */
    double now, step;
    struct af_simulation_result end;
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

static void set_up(struct simulation *simulation, const struct af_admit_job *jobs, size_t count,
                   const struct af_admit_limits *limits,
                   const struct af_simulation_policy *plan)
{
    double work = 0;
    simulation->jobs = jobs;
    simulation->limits = limits;
    simulation->plan = plan;
    simulation->waiting = simulation->running = 0;
    simulation->now = 0;
    simulation->end = (struct af_simulation_result){.start = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        const struct af_admit_job *job = &jobs[i];
        work += within(job->seconds, LEAST_SECONDS);
        if (job->state == AF_ADMIT_RUNNING) {
            simulation->runs[simulation->running++] = run_of(job);
        } else {
            double size = plan->order == AF_SIMULATION_LONGEST_FIRST ? job->seconds
                                                                     : (double)job->need_bytes;
            simulation->line[simulation->waiting++] =
                (struct entry){job->alone ? INFINITY : size, i};
        }
    }
    simulation->step = work / STEPS;
    qsort(simulation->line, simulation->waiting, sizeof *simulation->line, heavier_first);
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

static uint64_t used_after(const struct simulation *simulation, double seconds)
{
    uint64_t used = 0;
    for (size_t i = 0; i < simulation->running; i++)
        used += bytes_after(&simulation->runs[i], seconds);
    return used;
}

static size_t working(const struct simulation *simulation)
{
    size_t count = 0;
    for (size_t i = 0; i < simulation->running; i++)
        count += !simulation->runs[i].paused;
    return count;
}

/* The first time after `after` at which a run has ended or is past its peak; or INFINITY. */
static double next_change(const struct simulation *simulation, double after)
{
    double next = INFINITY;
    for (size_t i = 0; i < simulation->running; i++) {
        const struct run *run = &simulation->runs[i];
        double times[] = {to_change(run), run->total - run->done};
        for (size_t k = 0; k < AF_COUNT(times); k++)
            next = times[k] > after && times[k] < next ? times[k] : next;
    }
    return next;
}

/* In what time a job could start as those that run go on; *spare_out is the room beside it. */
static double start_of(const struct simulation *simulation, const struct af_admit_job *job,
                       uint64_t *spare_out)
{
    double time = 0;
    uint64_t used;
    *spare_out = 0;
    while ((used = used_after(simulation, time)) + job->need_bytes >
           simulation->limits->budget_bytes) {
        double next = next_change(simulation, time);
        if (isinf(next))
            return time; /* never fits: it will start when nothing runs */
        time = next;
    }
    *spare_out = simulation->limits->budget_bytes - used - job->need_bytes;
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

static bool has_memory_for(const struct simulation *simulation, const struct run *one,
                           double time)
{
    uint64_t bytes = taken_after(one, time);
    for (size_t i = 0; i < simulation->running; i++)
        bytes += taken_after(&simulation->runs[i], time);
    return bytes <= simulation->limits->budget_bytes;
}

/* Whether there is room for each peak to come when it starts now. */
static bool peaks_miss(const struct simulation *simulation, const struct run *one)
{
    if (!has_memory_for(simulation, one, to_change(one)))
        return false;
    for (size_t i = 0; i < simulation->running; i++) {
        double peak = to_change(&simulation->runs[i]);
        if (!simulation->runs[i].paused && peak <= one->total &&
            !has_memory_for(simulation, one, peak))
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

static struct af_deadlock_job row_of(const struct run *run)
{
    uint64_t needs = bytes_after(run, 0);
    return (struct af_deadlock_job){.need_bytes = needs == run->need ? run->careful : needs,
                                    .resident_bytes = held(run),
                                    .elapsed = run->done,
                                    .paused = run->paused};
}

/* What one may grow in a step. */
static uint64_t growth(const struct simulation *simulation)
{
    double most = 0;
    for (size_t i = 0; i < simulation->running; i++) {
        const struct run *run = &simulation->runs[i];
        double rise = run->rises ? (double)run->need / (AF_ADMIT_RISE * run->total) : 0;
        most = rise > most ? rise : most;
    }
    most *= simulation->step;
    return most > (double)simulation->limits->growth_bytes ? (uint64_t)most
                                                           : simulation->limits->growth_bytes;
}

/* Whether all can end in turn when it starts now, and soon nobody has to be paused. */
static bool is_safe_with(const struct simulation *simulation, const struct run *one)
{
    struct af_deadlock_job rows[AF_ADMIT_JOBS_MAX];
    size_t count = 0;
    if (simulation->running == AF_ADMIT_JOBS_MAX)
        return false;
    for (size_t i = 0; i < simulation->running; i++)
        rows[count++] = row_of(&simulation->runs[i]);
    rows[count++] = row_of(one);
    return af_deadlock_all_can_finish(rows, count, simulation->limits->budget_bytes,
                                      EARLY * simulation->limits->growth_bytes);
}

/* Whether it may start, and as one whose peak does not fit only with `peaks`. */
static bool may_start(struct simulation *simulation, const struct af_admit_job *job,
                      enum af_simulation_overlap peaks)
{
    struct run one = run_of(job);
    if (simulation->running == 0)
        return true;
    if (job->alone || simulation->runs[0].alone)
        return false;
    if (simulation->used + one.need <= simulation->limits->budget_bytes)
        return true;
    if (peaks == AF_SIMULATION_PEAKS_FIT || !one.rises || one.careful >= simulation->refused)
        return false;
    if (is_safe_with(simulation, &one))
        return peaks == AF_SIMULATION_PEAKS_WITH_PAUSES || peaks_miss(simulation, &one);
    simulation->refused = one.careful;
    return false;
}

static void count_used(struct simulation *simulation)
{
    simulation->used = used_after(simulation, 0);
    simulation->refused = UINT64_MAX;
}

static void begin(struct simulation *simulation, size_t at)
{
    if (simulation->now == 0 && simulation->end.start == SIZE_MAX)
        simulation->end.start = simulation->line[at].job;
    simulation->runs[simulation->running++] =
        run_of(&simulation->jobs[simulation->line[at].job]);
    count_used(simulation);
}

/* Starts all that fit and that the plan lets start at this time. */
static void start_all(struct simulation *simulation)
{
    size_t slots = simulation->limits->slots == 0 ? 1 : simulation->limits->slots;
    size_t busy = working(simulation);
    size_t kept = 0;
    enum af_simulation_overlap peaks = simulation->plan->peaks == AF_SIMULATION_PEAKS_STAGGERED
                                           ? AF_SIMULATION_PEAKS_STAGGERED
                                           : AF_SIMULATION_PEAKS_FIT;
    bool held_back = false;
    double start = 0;
    uint64_t spare = 0;
    for (size_t i = 0; i < simulation->waiting; i++) {
        const struct af_admit_job *job = &simulation->jobs[simulation->line[i].job];
        bool lets = !held_back || job->seconds <= start || job->need_bytes <= spare;
        if (busy < slots && lets && may_start(simulation, job, peaks)) {
            if (held_back && job->seconds > start)
                spare -= job->need_bytes;
            begin(simulation, i);
            busy++;
            continue;
        }
        simulation->line[kept++] = simulation->line[i];
        simulation->end.waited |= busy < slots;
        if (simulation->plan->holds && !held_back && busy < slots) {
            held_back = true;
            start = start_of(simulation, job, &spare);
        }
    }
    simulation->waiting = kept;
}

/* Starts the last in line that may, although its peak does not fit. */
static void start_last(struct simulation *simulation)
{
    size_t slots = simulation->limits->slots == 0 ? 1 : simulation->limits->slots;
    for (size_t i = simulation->waiting; i-- > 0 && working(simulation) < slots;) {
        if (!may_start(simulation, &simulation->jobs[simulation->line[i].job],
                       AF_SIMULATION_PEAKS_WITH_PAUSES))
            continue;
        begin(simulation, i);
        simulation->waiting--;
        for (size_t k = i; k < simulation->waiting; k++)
            simulation->line[k] = simulation->line[k + 1];
    }
}

/* Whether one is paused or may have to be. */
static bool overlaps(const struct simulation *simulation)
{
    uint64_t needs = 0;
    bool paused = false;
    for (size_t i = 0; i < simulation->running; i++) {
        needs += row_of(&simulation->runs[i]).need_bytes;
        paused |= simulation->runs[i].paused;
    }
    return paused || needs > simulation->limits->budget_bytes;
}

/* Pauses and resumes as peaks demand it. */
static void settle(struct simulation *simulation)
{
    struct af_deadlock_job rows[AF_ADMIT_JOBS_MAX];
    for (size_t i = 0; i < simulation->running; i++)
        rows[i] = row_of(&simulation->runs[i]);
    for (size_t i = 0; i < simulation->running + 1; i++) {
        size_t at = af_deadlock_pause_or_resume(
            rows, simulation->running, simulation->limits->budget_bytes, growth(simulation));
        if (at == SIZE_MAX)
            break;
        simulation->runs[at].paused = rows[at].paused;
    }
}

/* Time goes on until something changes. */
static void go_on(struct simulation *simulation)
{
    double slots = simulation->limits->slots == 0 ? 1 : simulation->limits->slots;
    double busy = (double)working(simulation);
    double rate = busy > slots ? slots / busy : 1;
    double work = overlaps(simulation) ? simulation->step : INFINITY;
    for (size_t i = 0; i < simulation->running; i++) {
        double change = to_change(&simulation->runs[i]);
        work = !simulation->runs[i].paused && change < work ? change : work;
    }
    simulation->now += work / rate;
    for (size_t i = simulation->running; i-- > 0;) {
        struct run *run = &simulation->runs[i];
        run->done += run->paused ? 0 : work + SOON;
        if (run->done >= run->total)
            *run = simulation->runs[--simulation->running];
    }
}

struct af_simulation_result af_simulation_run(const struct af_admit_job *jobs, size_t count,
                                              const struct af_admit_limits *limits,
                                              const struct af_simulation_policy *plan)
{
    struct simulation simulation;
    set_up(&simulation, jobs, count, limits, plan);
    for (;;) {
        if (overlaps(&simulation))
            settle(&simulation);
        count_used(&simulation);
        start_all(&simulation);
        if (plan->peaks == AF_SIMULATION_PEAKS_WITH_PAUSES)
            start_last(&simulation);
        if (simulation.running == 0)
            break;
        go_on(&simulation);
    }
    simulation.end.seconds = simulation.now;
    return simulation.end;
}
