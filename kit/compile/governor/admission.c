/*
 * admission.c: simulates each policy to the end of the build; the policy that
 * finishes first decides what starts now.
 *
 * A simulation moves from one event to the next: a compiler starts, passes its
 * peak or ends. While peaks overlap it moves in small steps, because compilers
 * are paused and resumed in between, as the governor would do.
 */
#include "kit/compile/governor/admission.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kit/compile/governor/deadlock.h"

#define FASTER 0.99     /* a later policy must finish earlier by this factor to be chosen */
#define EARLY_GROWTHS 4 /* an early start needs memory for so many growth steps */
#define STEPS 400       /* of a simulation while peaks overlap */
#define LONGER 1.1 /* a compiler past its predicted time needs this much of the time so far */
#define SECONDS_EPSILON 1e-6
#define SECONDS_MIN 0.01
#define SECONDS_MAX 1e7

/* Which compilers may start beside the running ones. */
enum overlap {
    NO_OVERLAP, /* only those whose peaks fit together */
    STAGGERED,  /* also one whose peak comes when there is memory for it */
    WITH_PAUSES /* also the last in line, if all can finish in turn with pauses */
};

struct policy {
    bool largest_first; /* else the longest first */
    bool holds;         /* keeps memory for the first in line that does not fit */
    enum overlap overlap;
};

static const struct policy policies[] = {
    {false, true, NO_OVERLAP},   {false, false, NO_OVERLAP}, {true, true, NO_OVERLAP},
    {true, false, NO_OVERLAP},   {false, false, STAGGERED},  {true, false, STAGGERED},
    {false, false, WITH_PAUSES}, {true, false, WITH_PAUSES},
};

/* A waiting job's place in line. */
struct entry {
    double weight; /* the heaviest is first */
    size_t job;
};

/* A running compiler. */
struct run {
    uint64_t need, padded, tail;
    double total, done; /* seconds of work */
    bool rises, alone, paused;
};

struct simulation {
    const struct af_admit_job *jobs;
    const struct af_admit_limits *limits;
    const struct policy *policy;
    struct entry line[AF_ADMIT_JOBS_MAX];
    struct run runs[AF_ADMIT_JOBS_MAX];
    size_t waiting, running;
    uint64_t used;    /* by the running ones, counting peaks to come */
    uint64_t refused; /* a job of this size could cause a deadlock at the current time */
    double now, step;
    size_t first_start; /* the first job that the policy starts at once; SIZE_MAX: none */
    bool waited;        /* a job had to wait for memory although a slot was free */
};

static size_t slots_of(const struct af_admit_limits *limits)
{
    return limits->slots == 0 ? 1 : limits->slots;
}

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
    seconds = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
    return seconds > least ? seconds : least;
}

static struct run run_of(const struct af_admit_job *job)
{
    double done = within(job->elapsed, 0);
    bool fits = job->resident_bytes <= job->need_bytes;
    uint64_t need = fits ? job->need_bytes : job->resident_bytes;
    return (struct run){
        .need = need,
        .padded = job->padded_bytes > need ? job->padded_bytes : need,
        .tail = job->tail_bytes,
        .total = within(job->seconds, done * LONGER + SECONDS_MIN),
        .done = done,
        .rises = job->rises,
        .alone = job->alone,
        .paused = job->paused,
    };
}

static void set_up(struct simulation *simulation, const struct af_admit_job *jobs, size_t count,
                   const struct af_admit_limits *limits, const struct policy *policy)
{
    double work = 0;
    simulation->jobs = jobs;
    simulation->limits = limits;
    simulation->policy = policy;
    simulation->waiting = simulation->running = 0;
    simulation->now = 0;
    simulation->first_start = SIZE_MAX;
    simulation->waited = false;
    for (size_t i = 0; i < count; i++) {
        const struct af_admit_job *job = &jobs[i];
        work += within(job->seconds, SECONDS_MIN);
        if (job->state == AF_ADMIT_RUNNING) {
            simulation->runs[simulation->running++] = run_of(job);
        } else {
            double weight = policy->largest_first ? (double)job->need_bytes : job->seconds;
            simulation->line[simulation->waiting++] =
                (struct entry){job->alone ? INFINITY : weight, i};
        }
    }
    simulation->step = work / STEPS;
    qsort(simulation->line, simulation->waiting, sizeof *simulation->line, heavier_first);
}

/* Seconds of work until its peak is over or, after the peak, until it ends. */
static double to_change(const struct run *run)
{
    double peak = AF_ADMIT_RISE * run->total;
    return run->rises && run->done < peak ? peak - run->done : run->total - run->done;
}

/* Bytes to reserve for it after `seconds` more of work. */
static uint64_t bytes_after(const struct run *run, double seconds)
{
    if (run->done + seconds >= run->total - SECONDS_EPSILON)
        return 0;
    bool past =
        run->rises && run->done + seconds >= AF_ADMIT_RISE * run->total - SECONDS_EPSILON;
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

/* The first time after `after` at which a run passes its peak or ends; else INFINITY. */
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

/* Seconds until the job will fit; *spare_out: bytes that are then free beside it. */
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
            return time; /* it never fits, so it starts when nothing else runs */
        time = next;
    }
    *spare_out = simulation->limits->budget_bytes - used - job->need_bytes;
    return time;
}

/* Bytes that it really uses after `seconds` more unless paused; its peak with the margin. */
static uint64_t usage_after(const struct run *run, double seconds)
{
    double peak = AF_ADMIT_RISE * run->total;
    double done = run->done + (run->paused ? 0 : seconds);
    if (done > run->total)
        return 0;
    if (!run->rises)
        return run->need;
    return done <= peak + SECONDS_EPSILON ? (uint64_t)((double)run->padded * done / peak)
                                          : run->tail;
}

static bool has_memory_for(const struct simulation *simulation, const struct run *one,
                           double time)
{
    uint64_t bytes = usage_after(one, time);
    for (size_t i = 0; i < simulation->running; i++)
        bytes += usage_after(&simulation->runs[i], time);
    return bytes <= simulation->limits->budget_bytes;
}

/* Whether no peak exceeds the memory if `one` starts now: peaks come at different times. */
static bool are_peaks_staggered(const struct simulation *simulation, const struct run *one)
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

/* The run as input of the deadlock check. */
static struct af_deadlock_job deadlock_job(const struct run *run)
{
    double peak = AF_ADMIT_RISE * run->total;
    uint64_t need = bytes_after(run, 0);
    bool is_rising = run->rises && run->done < peak;
    return (struct af_deadlock_job){
        .need_bytes = need == run->need ? run->padded : need,
        .resident_bytes = is_rising ? (uint64_t)((double)run->need * run->done / peak) : need,
        .elapsed = run->done,
        .paused = run->paused};
}

/* The most that any run can grow in one step. */
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

/* Whether all can finish in turn if `one` starts now, without a pause in the near future. */
static bool is_safe_with(const struct simulation *simulation, const struct run *one)
{
    struct af_deadlock_job rows[AF_ADMIT_JOBS_MAX];
    size_t count = 0;
    if (simulation->running == AF_ADMIT_JOBS_MAX)
        return false;
    for (size_t i = 0; i < simulation->running; i++)
        rows[count++] = deadlock_job(&simulation->runs[i]);
    rows[count++] = deadlock_job(one);
    return af_deadlock_all_can_finish(rows, count, simulation->limits->budget_bytes,
                                      EARLY_GROWTHS * simulation->limits->growth_bytes);
}

static bool may_start(struct simulation *simulation, const struct af_admit_job *job,
                      enum overlap overlap)
{
    struct run one = run_of(job);
    if (simulation->running == 0)
        return true;
    if (job->alone || simulation->runs[0].alone)
        return false;
    if (simulation->used + one.need <= simulation->limits->budget_bytes)
        return true;
    if (overlap == NO_OVERLAP || !one.rises || one.padded >= simulation->refused)
        return false;
    if (is_safe_with(simulation, &one))
        return overlap == WITH_PAUSES || are_peaks_staggered(simulation, &one);
    simulation->refused = one.padded;
    return false;
}

static void count_used(struct simulation *simulation)
{
    simulation->used = used_after(simulation, 0);
    simulation->refused = UINT64_MAX;
}

static void begin(struct simulation *simulation, size_t at)
{
    if (simulation->now == 0 && simulation->first_start == SIZE_MAX)
        simulation->first_start = simulation->line[at].job;
    simulation->runs[simulation->running++] =
        run_of(&simulation->jobs[simulation->line[at].job]);
    count_used(simulation);
}

/*
 * Starts the jobs that fit, in line. Once the first that does not fit holds
 * memory, later ones start only if they end before it could start, or fit
 * beside it even then.
 */
static void start_all(struct simulation *simulation)
{
    size_t slots = slots_of(simulation->limits);
    size_t busy = working(simulation);
    size_t kept = 0;
    enum overlap overlap = simulation->policy->overlap == STAGGERED ? STAGGERED : NO_OVERLAP;
    bool held_back = false;
    double start = 0;
    uint64_t spare = 0;
    for (size_t i = 0; i < simulation->waiting; i++) {
        const struct af_admit_job *job = &simulation->jobs[simulation->line[i].job];
        bool delays_none = !held_back || job->seconds <= start || job->need_bytes <= spare;
        if (busy < slots && delays_none && may_start(simulation, job, overlap)) {
            if (held_back && job->seconds > start)
                spare -= job->need_bytes;
            begin(simulation, i);
            busy++;
            continue;
        }
        simulation->line[kept++] = simulation->line[i];
        simulation->waited |= busy < slots;
        if (simulation->policy->holds && !held_back && busy < slots) {
            held_back = true;
            start = start_of(simulation, job, &spare);
        }
    }
    simulation->waiting = kept;
}

/* Starts compilers from the end of the line although their peaks do not fit. */
static void start_last(struct simulation *simulation)
{
    size_t slots = slots_of(simulation->limits);
    for (size_t i = simulation->waiting; i-- > 0 && working(simulation) < slots;) {
        if (!may_start(simulation, &simulation->jobs[simulation->line[i].job], WITH_PAUSES))
            continue;
        begin(simulation, i);
        simulation->waiting--;
        for (size_t k = i; k < simulation->waiting; k++)
            simulation->line[k] = simulation->line[k + 1];
    }
}

/* Whether a run is paused, or may have to be. */
static bool overlaps(const struct simulation *simulation)
{
    uint64_t needs = 0;
    bool paused = false;
    for (size_t i = 0; i < simulation->running; i++) {
        needs += deadlock_job(&simulation->runs[i]).need_bytes;
        paused |= simulation->runs[i].paused;
    }
    return paused || needs > simulation->limits->budget_bytes;
}

static void pause_and_resume(struct simulation *simulation)
{
    struct af_deadlock_job rows[AF_ADMIT_JOBS_MAX];
    for (size_t i = 0; i < simulation->running; i++)
        rows[i] = deadlock_job(&simulation->runs[i]);
    for (size_t i = 0; i < simulation->running + 1; i++) {
        size_t at = af_deadlock_pause_or_resume(
            rows, simulation->running, simulation->limits->budget_bytes, growth(simulation));
        if (at == SIZE_MAX)
            break;
        simulation->runs[at].paused = rows[at].paused;
    }
}

/* Lets time pass until the next change, or for one step while peaks overlap. */
static void advance(struct simulation *simulation)
{
    double slots = (double)slots_of(simulation->limits);
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
        run->done += run->paused ? 0 : work + SECONDS_EPSILON;
        if (run->done >= run->total)
            *run = simulation->runs[--simulation->running];
    }
}

/* Seconds until the build has ended under the policy. */
static double simulate(struct simulation *simulation)
{
    for (;;) {
        if (overlaps(simulation))
            pause_and_resume(simulation);
        count_used(simulation);
        start_all(simulation);
        if (simulation->policy->overlap == WITH_PAUSES)
            start_last(simulation);
        if (simulation->running == 0)
            return simulation->now;
        advance(simulation);
    }
}

static bool any_waiting_rises(const struct af_admit_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].rises && jobs[i].state == AF_ADMIT_WAITING)
            return true;
    }
    return false;
}

/* What the best policy starts now; SIZE_MAX: nothing. */
static size_t best_start(const struct af_admit_job *jobs, size_t count,
                         const struct af_admit_limits *limits)
{
    double best = INFINITY;
    size_t start = SIZE_MAX;
    bool rises = any_waiting_rises(jobs, count);
    for (size_t i = 0; i < AF_COUNT(policies); i++) {
        struct simulation simulation;
        if (policies[i].overlap != NO_OVERLAP && !rises)
            continue;
        set_up(&simulation, jobs, count, limits, &policies[i]);
        double seconds = simulate(&simulation);
        if (seconds < FASTER * best) {
            best = seconds;
            start = simulation.first_start;
        }
        if (!simulation.waited)
            break; /* nothing waits for memory: the policies do not differ */
    }
    return start;
}

/* Jobs that must be alone come first, then the longest, then the first to arrive. */
static size_t first_in_line(const struct af_admit_job *jobs, size_t count)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != AF_ADMIT_WAITING)
            continue;
        if (best == SIZE_MAX ||
            (jobs[i].alone != jobs[best].alone ? jobs[i].alone
                                               : jobs[i].seconds > jobs[best].seconds))
            best = i;
    }
    return best;
}

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_limits *limits)
{
    size_t running = 0;
    size_t busy = 0;
    bool alone = false;
    assert(count <= AF_ADMIT_JOBS_MAX);
    for (size_t i = 0; i < count; i++) {
        bool runs = jobs[i].state == AF_ADMIT_RUNNING;
        running += runs;
        busy += runs && !jobs[i].paused;
        alone |= runs && jobs[i].alone;
    }
    size_t first = first_in_line(jobs, count);
    if (first == SIZE_MAX)
        return (struct af_admit_answer){AF_ADMIT_NOTHING, SIZE_MAX};
    if (alone)
        return (struct af_admit_answer){AF_ADMIT_ALONE_RUNS, first};
    if (jobs[first].alone)
        return (struct af_admit_answer){running == 0 ? AF_ADMIT_NOW : AF_ADMIT_FOR_ALONE,
                                        first};
    if (busy >= slots_of(limits))
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    size_t start = best_start(jobs, count, limits);
    return start == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                             : (struct af_admit_answer){AF_ADMIT_NOW, start};
}
