/*
 * test_preflight.c: checks that run programs on this machine, and what is in the
 * cache; when a build ends, from its compilers so far.
 */
#include "build_world.h"

static struct af_build_check check;

static const struct af_prerequisite *row(const char *name)
{
    for (size_t i = 0; i < check.row_count; i++) {
        if (strcmp(check.rows[i].name, name) == 0)
            return &check.rows[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

static enum anyflash_status ask(struct world *world)
{
    const struct af_build_resources resources = {0};
    return af_build_check(&world->build, resources, &check, &world->err);
}

/* Creates a program that runs this shell text. */
static const char *program(struct world *world, const char *name, const char *text)
{
    const char *path = world_put(world, name, text);
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

/* Compilers and a Python that work. */
static void make_programs(struct world *world)
{
    struct af_machine *machine = &world->machine;
    world_set(world, &machine->toolkits.rows[0].nvcc,
              program(world, "nvcc", "#!/bin/sh\nexit 0\n"));
    world_set(world, &machine->compilers.rows[0].path,
              program(world, "c++", "#!/bin/sh\nexit 0\n"));
    world_set(world, &machine->compilers.rows[0].family, "gcc");
    world_set(world, &machine->python.executable,
              program(world, "python", "#!/bin/sh\nexit 0\n"));
}

static void begin(struct world *world)
{
    world_begin(world);
    make_programs(world);
    assert_int_equal(ask(world), ANYFLASH_OK);
}

static void test_check__is_content_where_all_answers(void **state)
{
    static const char *const names[] = {"cuda-toolkit", "host-compiler", "installer",
                                        "sources"};
    struct world world;
    (void)state;
    begin(&world);
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        const struct af_prerequisite *one = row(names[i]);
        if (one->answer != AF_YES || one->fix != NULL)
            fail_msg("%s: %s", names[i], one->evidence);
    }
    assert_null(check.obstacle);
    world_end(&world);
}

static void test_check__tells_of_compilers_that_do_not_work(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    program(&world, "nvcc", "#!/bin/sh\necho 'nvcc fatal: no licence' >&2\nexit 1\n");
    program(&world, "c++", "#!/bin/sh\nkill -SEGV $$\n");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("cuda-toolkit")->answer, AF_NO);
    assert_non_null(strstr(row("cuda-toolkit")->evidence, "no licence"));
    assert_non_null(strstr(row("cuda-toolkit")->fix, "--toolkit index"));
    assert_int_equal(row("host-compiler")->answer, AF_NO);
    assert_non_null(row("host-compiler")->fix);
    assert_false(check.can_start);
    assert_non_null(check.obstacle);
    world_end(&world);
}

static void test_check__tells_of_a_torch_that_cannot_use_the_wheel(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    world_set(&world, &world.machine.torch.version, "2.3.1+cu121");
    world_set(&world, &world.machine.torch.cuda, "12.1");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("torch")->answer, AF_NO);
    assert_null(check.obstacle); /* another environment may use it */
    world_set(&world, &world.machine.torch.version, "2.4.0+cu121");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_true(check.can_start);
    world_end(&world);
}

static void test_check__needs_no_installer_if_all_is_kept(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    program(&world, "python", "#!/bin/sh\nexit 1\n");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("installer")->answer, AF_NO);
    world_put(&world, "build/sources/flash_attn-2.8.3.post2.tar.gz", "x");
    world_put(&world, "build/sources/pylock.flash-attn.toml", "x");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_true(check.can_start);
    world_end(&world);
}

static void test_check__offline_needs_what_is_kept(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    world.build.offline = true;
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("sources")->answer, AF_NO);
    world_put(&world, "build/sources/flash_attn-2.8.3.post2.tar.gz", "x");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("sources")->answer, AF_YES);
    world_end(&world);
}

static void test_check__of_a_machine_without_facts_knows_nothing(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    af_machine_release(&world.machine);
    af_machine_init(&world.machine, "test", "not said");
    assert_int_equal(ask(&world), ANYFLASH_OK);
    assert_int_equal(row("platform")->answer, AF_UNKNOWN);
    assert_int_equal(row("cuda-toolkit")->answer, AF_UNKNOWN);
    world_end(&world);
}

static void test_check__survives_each_failed_allocation(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    world_starve(&world, ask);
    world_end(&world);
}

static const struct af_prediction minute = {.file = "a.cu", .seconds = 60};
static const struct af_prediction half = {.file = "b.cu", .seconds = 30};

static struct af_govern_row running_row(const struct af_prediction *prediction, bool running,
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
    const struct af_govern_row rows[] = {
        running_row(&minute, true, 0, 0), running_row(&half, true, 0, 0),
        running_row(&half, false, 0, 0), running_row(&minute, false, 0, 0),
        running_row(&half, false, 0, 0)};
    (void)state;
    double one = left(&nothing, rows, 1);
    assert_true(one > 55 && one < 80);
    double all = left(&nothing, rows, 5); /* 60 + 30 + 30 beside 30 + 60 */
    assert_true(all > 1.6 * one && all < 2.1 * one);
}

static void test_work_done_is_left_off(void **state)
{
    const struct af_build_end_time nothing = {0};
    const struct af_govern_row fresh = running_row(&minute, true, 0, 0);
    const struct af_govern_row old = running_row(&minute, true, 50, 50);
    const struct af_govern_row late = running_row(&minute, true, 500, 500);
    (void)state;
    assert_true(left(&nothing, &old, 1) < left(&nothing, &fresh, 1) - 40);
    assert_true(left(&nothing, &late, 1) > 0); /* it may take longer than predicted */
}

static void test_a_slow_machine_takes_longer(void **state)
{
    struct af_build_end_time end_time = {0};
    const struct af_govern_row rows[] = {running_row(&minute, true, 0, 0),
                                         running_row(&minute, true, 0, 0)};
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
    const struct af_govern_row rows[] = {running_row(&minute, true, 0, 0),
                                         running_row(&minute, true, 0, 0)};
    (void)state;
    double before = left(&end_time, rows, 2);
    add(&end_time, 240, 60); /* a quarter of a core each */
    add(&end_time, 240, 60);
    assert_true(left(&end_time, rows, 2) > 2.5 * before);
}

static void test_a_running_file_that_takes_longer_makes_the_others_longer(void **state)
{
    const struct af_build_end_time nothing = {0};
    const struct af_govern_row rows[] = {
        running_row(&minute, true, 300, 270), running_row(&minute, false, 0, 0),
        running_row(&minute, false, 0, 0), running_row(&minute, false, 0, 0)};
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
        rows[i] = running_row(&minute, i == 0, i == 0 ? 240 : 0, i == 0 ? 240 : 0);
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
        cmocka_unit_test(test_check__is_content_where_all_answers),
        cmocka_unit_test(test_check__tells_of_compilers_that_do_not_work),
        cmocka_unit_test(test_check__tells_of_a_torch_that_cannot_use_the_wheel),
        cmocka_unit_test(test_check__needs_no_installer_if_all_is_kept),
        cmocka_unit_test(test_check__offline_needs_what_is_kept),
        cmocka_unit_test(test_check__of_a_machine_without_facts_knows_nothing),
        cmocka_unit_test(test_check__survives_each_failed_allocation),
        cmocka_unit_test(test_waiting_files_go_where_a_place_is_free_first),
        cmocka_unit_test(test_work_done_is_left_off),
        cmocka_unit_test(test_a_slow_machine_takes_longer),
        cmocka_unit_test(test_others_on_the_cores_make_it_longer),
        cmocka_unit_test(test_a_running_file_that_takes_longer_makes_the_others_longer),
        cmocka_unit_test(test_the_estimate_learns_from_the_first_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
