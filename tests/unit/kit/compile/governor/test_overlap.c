/*
 * test_overlap.c: simulates builds of real files with the governor's own decisions: the
 * memory never runs out, and one compiler starts once another is past its peak.
 *
 * Files, seconds and peaks are those of three sets that were measured (bench/results); the
 * growth of memory over time was sampled from real compilers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kit/compile/governor/jobs.h"

#define FILES 6
#define MIB (UINT64_C(1) << 20)
#define TAIL (1024 * MIB)
#define LIMIT (8192 * MIB)
#define HOLDER (300 * MIB) /* other processes below the limit */
#define TEXT (150 * MIB)   /* programs: with less, compilers make no progress */
#define TICK 0.1
#define CORES 2.0
#define ROUNDS 90
#define RISE 0.59

/* The prediction, and what the compiler really needs. */
struct file {
    double predicted_seconds;
    uint64_t predicted_mib;
    double seconds;
    uint64_t mib;
    double rise; /* the share of its seconds until its peak is over */
};

enum which {
    FWD64,
    FWD64_CAUSAL,
    FWD64_SOFTCAP,
    FWD96_CAUSAL,
    FWD128_CAUSAL,
    FWD128_CAUSAL_WINDOW,
    SPLIT64,
    BWD64,
    BWD64_CAUSAL,
    BWD128_CAUSAL,
    BWD256
};

/*
 * Seconds are measured while another compiler runs, on the machine of
 * bench/results/governor.md.
 */
static const struct file known_files[] = {
    [FWD64] = {32.2, 3375, 48, 3276, 0.612},
    [FWD64_CAUSAL] = {32.2, 3375, 49, 3277, 0.593},
    [FWD64_SOFTCAP] = {39.4, 3932, 58, 3286, 0.585},
    [FWD96_CAUSAL] = {39.4, 3723, 66, 4208, 0.525},
    [FWD128_CAUSAL] = {39.4, 4239, 59, 4111, 0.505},
    [FWD128_CAUSAL_WINDOW] = {39.4, 4939, 70, 4112, 0.545},
    [SPLIT64] = {53.0, 3649, 86, 3548, 0.396},
    [BWD64] = {61.4, 6054, 80, 5880, 0.584},
    [BWD64_CAUSAL] = {61.4, 6054, 77, 5880, 0.555},
    [BWD128_CAUSAL] = {61.4, 6159, 95, 5977, 0.585},
    [BWD256] = {61.4, 6697, 101, 6506, 0.6},
};

struct set {
    const char *name;
    enum which files[FILES]; /* in setup.py's order */
    unsigned statics;        /* the most static jobs that survive */
};

static const struct set sets[] = {
    {"slim", {FWD64, FWD64_CAUSAL, FWD128_CAUSAL, BWD64, BWD64_CAUSAL, BWD128_CAUSAL}, 1},
    {"apart",
     {FWD64_SOFTCAP, FWD96_CAUSAL, FWD128_CAUSAL_WINDOW, BWD256, BWD128_CAUSAL, SPLIT64},
     2},
    {"meeting",
     {FWD64_SOFTCAP, FWD128_CAUSAL_WINDOW, BWD64, BWD256, BWD128_CAUSAL, SPLIT64},
     1},
};

static void take_files(const struct set *set, struct file files[FILES])
{
    for (size_t i = 0; i < FILES; i++)
        files[i] = known_files[set->files[i]];
}

/* Memory at a share of its time: of the peak, or in MiB where that is 0. */
struct point {
    double at, of_peak, mib;
};

static const struct point curve[] = {
    {0, 0, 10},       {0.04, 0, 730},   {0.07, 0, 830},  {0.08, 0, 60},   {0.10, 0.07, 0},
    {0.12, 0.17, 0},  {0.20, 0.31, 0},  {0.30, 0.53, 0}, {0.40, 0.72, 0}, {0.50, 0.90, 0},
    {0.54, 0.96, 0},  {0.57, 1, 0},     {0.59, 0.95, 0}, {0.61, 0.2, 0},  {0.64, 0.085, 0},
    {0.73, 0.112, 0}, {0.85, 0.095, 0}, {0.88, 0.02, 0}, {0.94, 0, 60},   {1, 0, 420},
};

static uint64_t bytes_at(const struct file *file, double worked)
{
    double peak_mib = (double)file->mib;
    double share = worked / file->seconds;
    share = share < file->rise ? share / file->rise * RISE
                               : RISE + (share - file->rise) / (1 - file->rise) * (1 - RISE);
    size_t i = 1;
    while (i + 1 < AF_COUNT(curve) && curve[i].at < share)
        i++;
    double low = curve[i - 1].mib + curve[i - 1].of_peak * peak_mib;
    double high = curve[i].mib + curve[i].of_peak * peak_mib;
    double part = (share - curve[i - 1].at) / (curve[i].at - curve[i - 1].at);
    return (uint64_t)((low + (high - low) * (part < 1 ? part : 1)) * (double)MIB);
}

/* A build that is simulated in ticks. */
struct world {
    const struct file *files;
    struct af_job jobs[FILES];
    double worked[FILES]; /* seconds */
    bool ended[FILES];
    double now, looked, speed;
    unsigned slots;
    uint64_t most;
};

static uint64_t used(const struct world *world)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < FILES; i++) {
        if (world->jobs[i].state == AF_JOB_RUNNING)
            bytes += bytes_at(&world->files[i], world->worked[i]);
    }
    return bytes;
}

static size_t working(const struct world *world)
{
    size_t count = 0;
    for (size_t i = 0; i < FILES; i++)
        count += world->jobs[i].state == AF_JOB_RUNNING;
    return count;
}

static bool all_ended(const struct world *world)
{
    for (size_t i = 0; i < FILES; i++) {
        if (!world->ended[i])
            return false;
    }
    return true;
}

static void start(struct world *world, size_t at)
{
    struct af_job *job = &world->jobs[at];
    job->state = AF_JOB_RUNNING;
    job->started = world->now;
    job->in_tail = false;
    job->resident_bytes = job->resident_peak = 0;
    world->worked[at] = 0;
}

/* Running compilers share the cores. */
static void tick(struct world *world)
{
    double busy = (double)working(world);
    double step = TICK * world->speed * (busy > CORES ? CORES / busy : 1);
    for (size_t i = 0; i < FILES; i++) {
        struct af_job *job = &world->jobs[i];
        if (job->state != AF_JOB_RUNNING)
            continue;
        world->worked[i] += step;
        if (world->worked[i] >= world->files[i].seconds) {
            world->ended[i] = true;
            job->state = AF_JOB_ENDED;
        }
    }
    world->now += TICK;
    uint64_t bytes = used(world);
    world->most = bytes > world->most ? bytes : world->most;
}

/* As the governor sees them. */
static void look(struct world *world)
{
    for (size_t i = 0; i < FILES; i++) {
        struct af_job *job = &world->jobs[i];
        if (job->state != AF_JOB_RUNNING)
            continue;
        job->resident_bytes = bytes_at(&world->files[i], world->worked[i]);
        if (job->resident_bytes > job->resident_peak)
            job->resident_peak = job->resident_bytes;
        job->in_tail |= af_demand_has_fallen(job);
    }
    world->looked = world->now;
}

static void admit(struct world *world, uint64_t budget)
{
    struct af_admit_answer answer = af_admit(world->jobs, FILES, budget, world->slots);
    for (; answer.why == AF_ADMIT_NOW;
         answer = af_admit(world->jobs, FILES, budget, world->slots))
        start(world, answer.job);
}

static struct world govern(const struct file *files, bool known, double speed)
{
    const uint64_t budget = LIMIT - LIMIT / 50 - HOLDER;
    struct world world = {.files = files, .slots = 2, .speed = speed};
    for (size_t i = 0; i < FILES; i++) {
        struct af_prediction *prediction = &world.jobs[i].prediction;
        world.jobs[i].state = AF_JOB_WAITING;
        prediction->bytes =
            known ? files[i].mib * MIB / 100 * 105 : files[i].predicted_mib * MIB;
        prediction->seconds = known ? files[i].seconds : files[i].predicted_seconds;
        prediction->rises = true;
        prediction->tail_bytes = TAIL;
    }
    while (!all_ended(&world)) {
        assert_true(world.now < 1000);
        if (world.now - world.looked >= 0.5 || world.now == 0) {
            look(&world);
            admit(&world, budget);
        }
        tick(&world);
    }
    return world;
}

/* Runs `jobs` at a time in setup.py's order: seconds, or 0 if memory runs out. */
static double play_static(const struct file *files, unsigned jobs)
{
    struct world world = {.files = files, .slots = jobs, .speed = 1};
    size_t next = 0;
    while (!all_ended(&world)) {
        while (next < FILES && working(&world) < jobs)
            start(&world, next++);
        tick(&world);
    }
    return world.most + HOLDER + TEXT > LIMIT ? 0 : world.now;
}

static double work_of(const struct file *files)
{
    double work = 0;
    for (size_t i = 0; i < FILES; i++)
        work += files[i].seconds;
    return work;
}

/* As with real compilers, or the other tests would prove little; in "apart" only sometimes. */
static void test_two_static_jobs_survive_only_where_they_did(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(sets); i++) {
        struct file files[FILES];
        take_files(&sets[i], files);
        assert_true(play_static(files, 1) > 0);
        assert_int_equal(play_static(files, 2) > 0, sets[i].statics == 2);
    }
}

/*
 * The bound is two cores that are always busy. Peaks of two compilers do not overlap, so a
 * third may be lost in so little memory.
 */
static void play_set(const struct set *set, bool known, double speed)
{
    struct file files[FILES];
    take_files(set, files);
    double bound = work_of(files) / CORES / speed;
    struct world world = govern(files, known, speed);
    assert_true(world.most + HOLDER <= LIMIT);
    if (world.now > 1.4 * bound)
        fail_msg("%s: %.0f s; bound %.0f", set->name, world.now, bound);
}

static void test_sets_end_near_the_best(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(sets); i++) {
        for (int speed = 8; speed <= 14; speed += 2) { /* in eighths */
            play_set(&sets[i], false, speed / 8.0);
            play_set(&sets[i], true, speed / 8.0);
        }
    }
}

static double between(unsigned *seed, double low, double high)
{
    *seed = *seed * 1664525u + 1013904223u;
    return low + (high - low) * (double)(*seed >> 8) / (1 << 24);
}

/* Other files, predicted `error` too high or too low: whether memory ran out. */
static bool play_other(const struct set *set, unsigned seed, double error)
{
    struct file files[FILES];
    take_files(set, files);
    for (size_t i = 0; i < FILES; i++) {
        files[i].seconds *= between(&seed, 0.85, 1.15);
        files[i].rise *= between(&seed, 0.93, 1.07);
        files[i].predicted_mib =
            (uint64_t)((double)files[i].mib * between(&seed, 1 - error, 1 + error));
    }
    struct world world = govern(files, false, 1);
    if (world.now > 1.7 * work_of(files) / CORES)
        fail_msg("seed %u, error %.2f: %.2f of the bound", seed, error,
                 world.now / work_of(files) * CORES);
    return world.most + HOLDER > LIMIT;
}

static unsigned play_others(double error)
{
    unsigned overruns = 0;
    for (unsigned seed = 1; seed <= ROUNDS; seed++)
        overruns += play_other(&sets[seed % AF_COUNT(sets)], seed, error);
    return overruns;
}

static void test_wrong_predictions_run_out_of_memory_only_if_they_are_far_off(void **state)
{
    (void)state;
    assert_int_equal(play_others(0.1), 0);
    assert_true(play_others(0.3) <= ROUNDS / 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_static_jobs_survive_only_where_they_did),
        cmocka_unit_test(test_sets_end_near_the_best),
        cmocka_unit_test(test_wrong_predictions_run_out_of_memory_only_if_they_are_far_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
