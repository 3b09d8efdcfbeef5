/*
 * test_end_time.c: predicts when a build ends, from its compilers so far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/compile/build.h"

static const struct af_prediction minute = {.file = "a.cu", .seconds = 60};
static const struct af_prediction half = {.file = "b.cu", .seconds = 30};

static struct af_govern_row row(const struct af_prediction *prediction, bool running,
                                double elapsed, double cpu_seconds)
{
    return (struct af_govern_row){prediction, running ? AF_JOB_RUNNING : AF_JOB_WAITING, 0,
                                  elapsed, cpu_seconds};
}

static double left(const struct af_build_end_time *end_time, const struct af_govern_row *rows,
                   size_t count)
{
    const struct af_govern_event event = {
        .kind = AF_GOVERN_TICK, .rows = rows, .row_count = count};
    return af_build_end_time_left(end_time, &event);
}

static void add(struct af_build_end_time *end_time, double elapsed, double cpu_seconds)
{
    const struct af_govern_event event = {.kind = AF_GOVERN_ENDED,
                                          .file = &minute,
                                          .seconds = elapsed,
                                          .cpu_seconds = cpu_seconds};
    af_build_end_time_add(end_time, &event);
}

static void test_waiting_files_go_where_a_place_is_free_first(void **state)
{
    const struct af_build_end_time nothing = {0};
    const struct af_govern_row rows[] = {row(&minute, true, 0, 0), row(&half, true, 0, 0),
                                         row(&half, false, 0, 0), row(&minute, false, 0, 0),
                                         row(&half, false, 0, 0)};
    (void)state;
    double one = left(&nothing, rows, 1);
    assert_true(one > 55 && one < 80);
    double all = left(&nothing, rows, 5); /* 60 + 30 + 30 beside 30 + 60 */
    assert_true(all > 1.6 * one && all < 2.1 * one);
}

static void test_work_done_is_left_off(void **state)
{
    const struct af_build_end_time nothing = {0};
    const struct af_govern_row fresh = row(&minute, true, 0, 0);
    const struct af_govern_row old = row(&minute, true, 50, 50);
    const struct af_govern_row late = row(&minute, true, 500, 500);
    (void)state;
    assert_true(left(&nothing, &old, 1) < left(&nothing, &fresh, 1) - 40);
    assert_true(left(&nothing, &late, 1) > 0); /* it may take longer than predicted */
}

static void test_a_slow_machine_takes_longer(void **state)
{
    struct af_build_end_time end_time = {0};
    const struct af_govern_row rows[] = {row(&minute, true, 0, 0), row(&minute, true, 0, 0)};
    (void)state;
    double before = left(&end_time, rows, 2);
    add(&end_time, 130, 120); /* twice the prediction */
    add(&end_time, 130, 120);
    double after = left(&end_time, rows, 2);
    assert_true(after > 1.6 * before && after < 2.2 * before);
}

static void test_others_on_the_cores_make_it_longer(void **state)
{
    struct af_build_end_time end_time = {0};
    const struct af_govern_row rows[] = {row(&minute, true, 0, 0), row(&minute, true, 0, 0)};
    (void)state;
    double before = left(&end_time, rows, 2);
    add(&end_time, 240, 60); /* a quarter of a core each */
    add(&end_time, 240, 60);
    assert_true(left(&end_time, rows, 2) > 2.5 * before);
}

static void test_a_running_file_that_takes_longer_makes_the_others_longer(void **state)
{
    const struct af_build_end_time nothing = {0};
    const struct af_govern_row rows[] = {row(&minute, true, 300, 270),
                                         row(&minute, false, 0, 0), row(&minute, false, 0, 0),
                                         row(&minute, false, 0, 0)};
    (void)state;
    assert_true(left(&nothing, rows, 4) > 600);
}

/* One job; every file takes five times as long as predicted: the error stays below 40 %. */
static void test_the_estimate_learns_from_the_first_files(void **state)
{
    struct af_build_end_time end_time = {0};
    struct af_govern_row rows[8];
    (void)state;
    for (size_t i = 0; i < 8; i++)
        rows[i] = row(&minute, i == 0, i == 0 ? 240 : 0, i == 0 ? 240 : 0);
    for (size_t done = 0; done < 7; done++) {
        double truth = 60 + 300 * (double)(7 - done);
        double said = left(&end_time, rows, 8 - done);
        assert_true(said > 0.6 * truth && said < 1.4 * truth);
        add(&end_time, 300, 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting_files_go_where_a_place_is_free_first),
        cmocka_unit_test(test_work_done_is_left_off),
        cmocka_unit_test(test_a_slow_machine_takes_longer),
        cmocka_unit_test(test_others_on_the_cores_make_it_longer),
        cmocka_unit_test(test_a_running_file_that_takes_longer_makes_the_others_longer),
        cmocka_unit_test(test_the_estimate_learns_from_the_first_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
