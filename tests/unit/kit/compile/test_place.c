/*
 * test_place.c: the folder of a build changes with everything that its objects
 * depend on, but not with the selection of kernels.
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
#include "tests/unit/every_allocation.h"

/* A machine with a system toolkit, and a build on it. */
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

static struct af_toolkit *toolkit(struct world *world)
{
    return &world->machine.toolkits.rows[0];
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
    struct af_toolkit *here =
        af_machine_row_add(machine, offsetof(struct af_machine, toolkits), "not said");
    set(world, &here->version, "13.0");
    set(world, &here->root, "/usr/local/cuda-13.0");
    set(world, &here->nvcc, "/usr/local/cuda-13.0/bin/nvcc");
    af_fact_bool(&machine->arena, &here->torch_takes_it, true, "test");
    struct af_compiler *compiler =
        af_machine_row_add(machine, offsetof(struct af_machine, compilers), "not said");
    set(world, &compiler->path, "/usr/bin/g++");
    set(world, &compiler->version, "12.2.0");
    world->build =
        (struct af_build){.machine = machine, .arena = &world->arena, .version = "2.8.3.post2"};
    af_selection_all(&world->build.selection);
    af_selection_add_arch(&world->build.selection, 90);
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

static void other_toolkit(struct world *world)
{
    set(world, &toolkit(world)->version, "13.1");
}

static void other_toolkit_folder(struct world *world)
{
    set(world, &toolkit(world)->root, "/opt/cuda");
}

static void other_compiler(struct world *world)
{
    set(world, &world->machine.compilers.rows[0].version, "13.1.0");
}

static void other_arch(struct world *world)
{
    world->build.selection.arch_count = 0;
    af_selection_add_arch(&world->build.selection, 80);
}

static void one_arch_more(struct world *world)
{
    af_selection_add_arch(&world->build.selection, 80);
}

static void without_dropout(struct world *world)
{
    world->build.selection.features &= ~(unsigned)AF_FLASH_DROPOUT;
}

static void without_alibi(struct world *world)
{
    world->build.selection.features &= ~(unsigned)AF_FLASH_ALIBI;
}

static void without_window(struct world *world)
{
    world->build.selection.features &= ~(unsigned)AF_FLASH_LOCAL;
}

static void without_softcap(struct world *world)
{
    world->build.selection.features &= ~(unsigned)AF_FLASH_SOFTCAP;
}

static void test_folder__changes_with_each_input(void **state)
{
    static void (*const changes[])(struct world *) = {
        other_flash,   other_toolkit,   other_arch,    other_toolkit_folder, other_compiler,
        one_arch_more, without_dropout, without_alibi, without_window,       without_softcap};
    const char *seen[AF_COUNT(changes) + 1];
    struct world worlds[AF_COUNT(changes) + 1];
    (void)state;
    for (size_t i = 0; i < AF_COUNT(worlds); i++) {
        begin(&worlds[i]);
        if (i > 0)
            changes[i - 1](&worlds[i]);
        seen[i] = folder(&worlds[i]);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(seen[i], seen[k]) == 0)
                fail_msg("changes %zu and %zu share a folder", i, k);
        }
    }
    for (size_t i = 0; i < AF_COUNT(worlds); i++)
        end(&worlds[i]);
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
    world.build.memory_bytes = UINT64_C(1) << 33;
    world.build.slots = 3;
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

static void test_toolkit__must_be_one_that_the_driver_serves(void **state)
{
    struct world world;
    struct anyflash_error err;
    (void)state;
    begin(&world);
    set(&world, &world.machine.driver.cuda_api, "12.4");
    assert_int_equal(af_build_find_place(&world.build, &world.place, &err),
                     ANYFLASH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "anyflash build --check"));
    set(&world, &toolkit(&world)->version, "12.8");
    folder(&world);
    assert_false(world.place.cuda_from_index);
    assert_string_equal(world.place.nvcc, "/usr/local/cuda-13.0/bin/nvcc");
    end(&world);
}

static void test_toolkit__of_the_index_has_a_fixed_version(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    world.build.toolkit = AF_FIT_TOOLKIT_INDEX;
    folder(&world);
    assert_true(world.place.cuda_from_index);
    assert_string_equal(world.place.cuda_version, "13.0.2");
    assert_string_equal(world.place.cuda_home,
                        "/cache/build/tools-cuda-13.0.2/toolkit/nvidia/cu13");
    end(&world);
}

static void test_place__survives_lack_of_memory(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        struct af_build_place place = {0};
        every_allocation_begin(&each);
        enum anyflash_status status = af_build_find_place(&world.build, &place, NULL);
        every_allocation_end(&each);
        every_allocation_check(&each, status, NULL);
        if (!each.failed)
            continue;
        assert_null(place.folder);
        af_arena_release(&world.arena);
        af_arena_init(&world.arena);
    }
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
        cmocka_unit_test(test_folder__changes_with_each_input),
        cmocka_unit_test(test_folder__is_the_same_whatever_is_kept),
        cmocka_unit_test(test_folder__does_not_depend_on_how_it_is_built),
        cmocka_unit_test(test_folder__does_not_depend_on_python_and_torch),
        cmocka_unit_test(test_toolkit__must_be_one_that_the_driver_serves),
        cmocka_unit_test(test_toolkit__of_the_index_has_a_fixed_version),
        cmocka_unit_test(test_place__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, set_cache, NULL);
}
