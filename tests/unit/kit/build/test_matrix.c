/*
 * test_matrix.c: jobs of a matrix from data alone: targets, names, what the
 * tables exclude, and a failure of each allocation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/build/matrix.h"
#include "tests/unit/every_allocation.h"

static struct af_tables tables;

static int load(void **state)
{
    (void)state;
    af_json_start();
    return af_tables_load(&tables, NULL) == ANYFLASH_OK ? 0 : -1;
}

static int release(void **state)
{
    (void)state;
    af_tables_release(&tables);
    return 0;
}

/* The matrix of three axes, in `arena`. */
static enum anyflash_status make(struct af_arena *arena, const char *torch, const char *python,
                                 const char *arch, struct af_matrix *matrix)
{
    const char *const axes[] = {torch, python, arch};
    struct af_slim slim = {0};
    af_slim_full(&slim);
    const struct af_matrix_question question = {.axes = axes,
                                                .axis_count = AF_COUNT(axes),
                                                .version = "2.8.3.post2",
                                                .slim = &slim,
                                                .output = "wheels"};
    return af_matrix_make(&question, &tables, arena, matrix, NULL);
}

static void test_order__arch_is_fastest(void **state)
{
    static const char *const names[] = {
        "torch2.9.1-cu128-cp311-sm80", "torch2.9.1-cu128-cp311-sm90",
        "torch2.9.1-cu128-cp313t-sm80", "torch2.9.1-cu128-cp313t-sm90"};
    struct af_arena arena;
    struct af_matrix matrix;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(make(&arena, "torch=2.9", "python=3.11,3.13t", "arch=80,9.0", &matrix),
                     ANYFLASH_OK);
    assert_int_equal(matrix.job_count, AF_COUNT(names));
    for (size_t i = 0; i < AF_COUNT(names); i++)
        assert_string_equal(matrix.jobs[i].name, names[i]);
    af_arena_release(&arena);
}

/* Every known release can be built for 8.0, with a Python that it supports. */
static void test_tables__every_release_has_a_job(void **state)
{
    (void)state;
    for (size_t i = 0; i < tables.torch_count; i++) {
        const struct af_catalog_torch_release *release = &tables.torch[i];
        struct af_arena arena;
        struct af_matrix matrix;
        af_arena_init(&arena);
        const char *torch = af_arena_format(&arena, "torch=%s", release->minor);
        const char *python = af_arena_format(
            &arena, "python=%s", release->pythons.items[release->pythons.count - 1]);
        assert_int_equal(make(&arena, torch, python, "arch=80", &matrix), ANYFLASH_OK);
        assert_int_equal(matrix.job_count, 1);
        assert_string_equal(matrix.jobs[0].torch, release->latest);
        af_arena_release(&arena);
    }
}

static void test_targets__are_those_of_the_toolkit(void **state)
{
    struct af_arena arena;
    struct af_matrix matrix;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(make(&arena, "torch=2.6", "python=3.12", "arch=80,90,100,12.1", &matrix),
                     ANYFLASH_OK);
    assert_int_equal(matrix.job_count, 2);
    assert_int_equal(matrix.left_out_count, 2);
    assert_non_null(strstr(matrix.left_out[1].reason, "12.0"));
    af_arena_release(&arena);
}

static void test_matrix__survives_lack_of_memory(void **state)
{
    (void)state;
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        struct af_arena arena;
        struct af_matrix matrix = {0};
        af_arena_init(&arena);
        every_allocation_begin(&each);
        enum anyflash_status status =
            make(&arena, "torch=2.9,2.15", "python=3.10,3.12", "arch=80,90", &matrix);
        every_allocation_end(&each);
        every_allocation_check(&each, status, NULL);
        assert_true(!each.failed || matrix.jobs == NULL);
        af_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order__arch_is_fastest),
        cmocka_unit_test(test_tables__every_release_has_a_job),
        cmocka_unit_test(test_targets__are_those_of_the_toolkit),
        cmocka_unit_test(test_matrix__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, load, release);
}
