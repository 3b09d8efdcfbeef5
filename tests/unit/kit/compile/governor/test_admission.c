/*
 * test_admission.c: which compilers may start, and how close schedules come to
 * the optimum.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kit/compile/governor/jobs.h"

#define JOBS 200

static struct af_job waiting(uint64_t need, double seconds)
{
    return (struct af_job){.prediction = {.bytes = need, .seconds = seconds}};
}

static struct af_job running(uint64_t need)
{
    return (struct af_job){.state = AF_JOB_RUNNING, .prediction = {.bytes = need}};
}

static void expect(const struct af_job *jobs, size_t count, uint64_t budget, unsigned slots,
                   enum af_admit_why why, size_t job)
{
    struct af_admit_answer answer = af_admit(jobs, count, budget, slots);
    assert_int_equal(answer.why, why);
    assert_int_equal(answer.job, job);
}

static void test_longest_that_fits_starts(void **state)
{
    const struct af_job jobs[] = {waiting(3, 10), waiting(6, 30), waiting(1, 5)};
    (void)state;
    expect(jobs, 3, 8, 2, AF_ADMIT_NOW, 1);
    expect(jobs, 0, 8, 2, AF_ADMIT_NOTHING, SIZE_MAX);
}

static void test_one_runs_however_large(void **state)
{
    const struct af_job jobs[] = {waiting(100, 10)};
    (void)state;
    expect(jobs, 1, 8, 2, AF_ADMIT_NOW, 0);
}

static void test_slots_hold(void **state)
{
    const struct af_job jobs[] = {running(1), running(1), waiting(1, 10)};
    (void)state;
    expect(jobs, 3, 8, 2, AF_ADMIT_SLOTS, 2);
    expect(jobs, 3, 8, 3, AF_ADMIT_NOW, 2);
}

static void test_what_is_taken_counts_more_than_what_was_said(void **state)
{
    struct af_job jobs[] = {running(2), waiting(5, 10)};
    (void)state;
    expect(jobs, 2, 8, 2, AF_ADMIT_NOW, 1);
    jobs[0].resident_bytes = 4;
    expect(jobs, 2, 8, 2, AF_ADMIT_MEMORY, 1);
}

static void test_shorter_ones_go_ahead_if_the_longest_does_not_fit(void **state)
{
    const struct af_job jobs[] = {running(5), waiting(6, 30), waiting(2, 10), waiting(3, 20)};
    (void)state;
    expect(jobs, 4, 8, 4, AF_ADMIT_NOW, 3);
    expect(jobs, 4, 7, 4, AF_ADMIT_NOW, 2);
    expect(jobs, 4, 6, 4, AF_ADMIT_MEMORY, 1);
    expect(jobs, 4, 4, 4, AF_ADMIT_MEMORY, 1); /* the limit was lowered */
}

static void test_alone_means_alone(void **state)
{
    struct af_job jobs[] = {running(1), waiting(1, 50), waiting(1, 10)};
    (void)state;
    jobs[2].alone = true;
    expect(jobs, 3, 8, 4, AF_ADMIT_FOR_ALONE, 2);
    expect(jobs + 1, 2, 8, 4, AF_ADMIT_NOW, 1);
    jobs[0].alone = true;
    expect(jobs, 2, 8, 4, AF_ADMIT_ALONE_RUNS, 1);
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static uint64_t used_bytes(const struct af_job *jobs)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < JOBS; i++)
        bytes += jobs[i].state == AF_JOB_RUNNING ? jobs[i].prediction.bytes : 0;
    return bytes;
}

/* Runs all jobs to their end and returns the seconds. No start may exceed the budget. */
static double simulate(struct af_job *jobs, uint64_t budget, unsigned slots)
{
    double time = 0;
    size_t left = JOBS;
    double elapsed[JOBS] = {0};
    while (left > 0) {
        struct af_admit_answer answer = af_admit(jobs, JOBS, budget, slots);
        if (answer.why == AF_ADMIT_NOW) {
            jobs[answer.job].state = AF_JOB_RUNNING;
            assert_true(used_bytes(jobs) <= budget);
            continue;
        }
        size_t first = SIZE_MAX;
        double step = 0;
        for (size_t i = 0; i < JOBS; i++) {
            double rest = jobs[i].prediction.seconds - elapsed[i];
            if (jobs[i].state == AF_JOB_RUNNING && (first == SIZE_MAX || rest < step)) {
                first = i;
                step = rest;
            }
        }
        assert_int_not_equal(first, SIZE_MAX);
        time += step;
        for (size_t i = 0; i < JOBS; i++)
            elapsed[i] += jobs[i].state == AF_JOB_RUNNING ? step : 0;
        jobs[first].state = AF_JOB_ENDED;
        left--;
    }
    return time;
}

/* Seconds of all large, middle and small jobs. */
struct work {
    double large, middle, small;
};

/*
 * By linear programming duality no schedule is shorter: the prices for a second
 * of each kind are such that no set of jobs that fits costs more than 1. These
 * sets fit: one large and one small; two middle ones; one middle and four small;
 * seven small.
 */
static double least_time(const struct work *work, unsigned slots)
{
    double best = 0;
    double most = 1.0 / (slots < 7 ? slots : 7);
    for (int i = 0; i <= 100; i++) {
        double small = most * i / 100;
        double middle = 1 - (slots - 1 < 4 ? slots - 1 : 4) * small;
        double time = work->large * (1 - small) + work->middle * (middle < 0.5 ? middle : 0.5) +
                      work->small * small;
        best = time > best ? time : best;
    }
    return best;
}

static void make_jobs(unsigned random, struct af_job *jobs, struct work *work)
{
    static const uint64_t needs[] = {5900, 3400, 1000};
    *work = (struct work){0};
    for (size_t i = 0; i < JOBS; i++) {
        unsigned kind = next_random(&random) % 3;
        double seconds = 20 + next_random(&random) % 150;
        jobs[i] = waiting(needs[kind] + next_random(&random) % 300, seconds);
        *(kind == 0 ? &work->large : kind == 1 ? &work->middle : &work->small) += seconds;
    }
}

static void test_schedules_reach_four_fifths_of_the_best(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 50; seed++) {
        struct af_job jobs[JOBS];
        struct work work;
        unsigned slots = 2 + seed % 7;
        make_jobs(seed, jobs, &work);
        double best = least_time(&work, slots);
        double took = simulate(jobs, 7700, slots);
        if (best / took < 0.8)
            fail_msg("seed %u, %u slots: %.0f s where %.0f may do", seed, slots, took, best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_that_fits_starts),
        cmocka_unit_test(test_one_runs_however_large),
        cmocka_unit_test(test_slots_hold),
        cmocka_unit_test(test_what_is_taken_counts_more_than_what_was_said),
        cmocka_unit_test(test_shorter_ones_go_ahead_if_the_longest_does_not_fit),
        cmocka_unit_test(test_alone_means_alone),
        cmocka_unit_test(test_schedules_reach_four_fifths_of_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
