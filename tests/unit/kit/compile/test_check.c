/*
 * test_check.c: checks that run programs on this machine, and what is in the
 * cache.
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
