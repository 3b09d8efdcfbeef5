/*
 * test_module_choices.c: what the page offers, when allocations fail. tests/page asks the
 * WebAssembly module for the same.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "page/module_choices.h"
#include "tests/unit/every_allocation.h"

#define WORDS                                                                                  \
    "os=linux arch=x86_64 glibc=2.35 python=3.13t gpu=8xA100 torch=2.9.1+cu128 driver=580"

static void survive(const char *words)
{
    struct anyflash_error err;
    struct af_machine machine;
    struct every_allocation each = {.skip_part = 40};
    machine_of(&machine, words);
    while (every_allocation_next(&each)) {
        struct af_arena arena;
        json_t *answer = NULL;
        af_arena_init(&arena);
        every_allocation_begin(&each);
        enum anyflash_status status =
            af_module_choices(&machine, &catalog, &arena, &answer, &err);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &err);
        assert_int_equal(answer == NULL, each.failed);
        json_decref(answer);
        af_arena_release(&arena);
    }
    af_machine_release(&machine);
}

static void test_choices__survive_failed_allocations(void **state)
{
    (void)state;
    survive(WORDS);
    survive("os=windows gpu=none torch=none python=3.12");
}

static void test_menus__survive_each_failed_allocation(void **state)
{
    struct af_machine machine;
    struct every_allocation each = {.nth = 0};
    (void)state;
    machine_of(&machine, WORDS);
    while (every_allocation_next(&each)) {
        struct af_arena arena;
        af_arena_init(&arena);
        every_allocation_begin(&each);
        json_t *menus = af_module_menus(&machine, &arena);
        every_allocation_end(&each);
        assert_int_equal(menus == NULL || arena.failed, each.failed);
        json_decref(menus);
        af_arena_release(&arena);
    }
    af_machine_release(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices__survive_failed_allocations),
        cmocka_unit_test(test_menus__survive_each_failed_allocation),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
