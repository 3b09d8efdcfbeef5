/*
 * test_deadlock.c: which compilers may grow, which are paused, and that all of
 * them finish.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kit/compile/governor/deadlock.h"

#define JOBS 6

static struct af_deadlock_job job(uint64_t need, uint64_t resident, double elapsed)
{
    return (struct af_deadlock_job){
        .need_bytes = need, .resident_bytes = resident, .elapsed = elapsed};
}

static void test_safe_is_where_all_can_end_in_turn(void **state)
{
    const struct af_deadlock_job jobs[] = {job(600, 400, 9), job(400, 100, 1)};
    (void)state;
    assert_true(af_deadlock_all_can_finish(jobs, 2, 700, 0));  /* 600 and 100, then 400 */
    assert_false(af_deadlock_all_can_finish(jobs, 2, 690, 0)); /* neither can finish */
    assert_true(af_deadlock_all_can_finish(jobs, 2, 730, 20));
    assert_false(af_deadlock_all_can_finish(jobs, 2, 720, 30));
    assert_true(af_deadlock_all_can_finish(jobs, 0, 0, 0));
}

static void test_the_one_that_grows_too_early_is_paused_and_goes_on(void **state)
{
    struct af_deadlock_job jobs[] = {job(600, 400, 9), job(400, 95, 1)};
    (void)state;
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 700, 10), 1);
    assert_true(jobs[1].paused);
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 700, 10), SIZE_MAX);
    jobs[0].need_bytes = 100; /* past its peak */
    jobs[0].resident_bytes = 80;
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 700, 10), 1);
    assert_false(jobs[1].paused);
}

static void test_one_always_runs(void **state)
{
    struct af_deadlock_job jobs[] = {job(900, 400, 9), job(900, 100, 1)};
    (void)state;
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 1, 500, 10), SIZE_MAX);
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 500, 10), 1);
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 500, 10), SIZE_MAX);
    jobs[0].paused = true; /* its end was not reported yet */
    assert_int_equal(af_deadlock_pause_or_resume(jobs, 2, 500, 10), 0);
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* All grow step by step as permitted; memory never runs out and all finish. */
static void play(unsigned seed)
{
    struct af_deadlock_job jobs[JOBS];
    size_t left = JOBS;
    for (size_t i = 0; i < JOBS; i++)
        jobs[i] = job(100 + next_random(&seed) % 600, 0, (double)(JOBS - i));
    for (int step = 0; left > 0; step++) {
        uint64_t used = 0;
        assert_true(step < 10000);
        for (size_t i = 0; i < left + 1; i++)
            af_deadlock_pause_or_resume(jobs, left, 700, 10);
        for (size_t i = left; i-- > 0;) {
            if (!jobs[i].paused)
                jobs[i].resident_bytes += next_random(&seed) % 11;
            used += jobs[i].resident_bytes;
        }
        if (used > 700)
            fail_msg("%d of 700 in use at step %d", (int)used, step);
        for (size_t i = left; i-- > 0;) {
            if (jobs[i].resident_bytes >= jobs[i].need_bytes - 10)
                jobs[i] = jobs[--left];
        }
    }
}

static void test_memory_never_runs_out_and_all_end(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++)
        play(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safe_is_where_all_can_end_in_turn),
        cmocka_unit_test(test_the_one_that_grows_too_early_is_paused_and_goes_on),
        cmocka_unit_test(test_one_always_runs),
        cmocka_unit_test(test_memory_never_runs_out_and_all_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
