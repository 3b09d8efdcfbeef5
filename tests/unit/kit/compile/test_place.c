/*
 * test_place.c: the folder of a build depends on the release and on nothing else that the user
 * says, so that later builds find what earlier ones compiled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kit/compile/build.h"

/* A machine, and a build on it. */
struct world {
    struct af_machine machine;
    struct af_arena arena;
    struct af_build build;
    struct af_build_place place;
};

static void set(struct world *world, struct af_fact *fact, const char *text)
{
    af_fact_text(&world->machine.arena, fact, text, "test");
}

static void begin(struct world *world)
{
    struct af_machine *machine = &world->machine;
    memset(world, 0, sizeof *world);
    af_machine_init(machine, "test", "not said");
    af_arena_init(&world->arena);
    set(world, &machine->platform.os, "linux");
    set(world, &machine->platform.arch, "x86_64");
    set(world, &machine->python.version, "3.12.7");
    set(world, &machine->python.executable, "/venv/bin/python");
    set(world, &machine->torch.version, "2.11.0+cu130");
    set(world, &machine->torch.path, "/venv/lib/torch");
    set(world, &machine->torch.cuda, "13.0");
    world->build =
        (struct af_build){.machine = machine, .arena = &world->arena, .version = "2.8.3.post2"};
    af_selection_all(&world->build.selection);
}

static void end(struct world *world)
{
    af_arena_release(&world->arena);
    af_machine_release(&world->machine);
}

static const char *folder(struct world *world)
{
    struct anyflash_error err;
    if (af_build_find_place(&world->build, &world->place, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    return world->place.folder;
}

static void other_flash(struct world *world)
{
    world->build.version = "2.8.3.post1";
}

static void test_folder__is_another_for_another_flash_attn(void **state)
{
    struct world world;
    char before[4096];
    (void)state;
    begin(&world);
    snprintf(before, sizeof before, "%s", folder(&world));
    other_flash(&world);
    assert_string_not_equal(folder(&world), before);
    end(&world);
}

/* A build with more kernels finds its earlier objects. */
static void test_folder__is_the_same_whatever_is_kept(void **state)
{
    struct world world;
    char full[4096];
    (void)state;
    begin(&world);
    snprintf(full, sizeof full, "%s", folder(&world));
    world.build.selection.backward = false;
    assert_string_equal(folder(&world), full);
    world.build.selection.dtypes = AF_SELECTION_BF16;
    assert_string_equal(folder(&world), full);
    for (size_t i = 0; i < AF_SELECTION_HEAD_DIMS; i++) {
        world.build.selection.head_dims = 1u << i;
        assert_string_equal(folder(&world), full);
    }
    end(&world);
}

static void test_folder__does_not_depend_on_how_it_is_built(void **state)
{
    struct world world;
    char before[4096];
    (void)state;
    begin(&world);
    snprintf(before, sizeof before, "%s", folder(&world));
    world.build.jobs = 3;
    world.build.pack = "/some.kernels";
    world.build.offline = true;
    assert_string_equal(folder(&world), before);
    end(&world);
}

static void test_folder__does_not_depend_on_python_and_torch(void **state)
{
    struct world world;
    char before[4096];
    (void)state;
    begin(&world);
    snprintf(before, sizeof before, "%s", folder(&world));
    set(&world, &world.machine.torch.version, "2.4.1+cu121");
    set(&world, &world.machine.torch.cuda, "12.1");
    set(&world, &world.machine.python.version, "3.9.1");
    set(&world, &world.machine.python.executable, "/other/bin/python");
    assert_string_equal(folder(&world), before);
    end(&world);
}

static int set_cache(void **state)
{
    (void)state;
    return setenv("ANYFLASH_CACHE", "/cache", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder__is_another_for_another_flash_attn),
        cmocka_unit_test(test_folder__is_the_same_whatever_is_kept),
        cmocka_unit_test(test_folder__does_not_depend_on_how_it_is_built),
        cmocka_unit_test(test_folder__does_not_depend_on_python_and_torch),
    };
    return cmocka_run_group_tests(tests, set_cache, NULL);
}
