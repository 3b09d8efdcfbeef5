/*
 * test_textbook.c: textbook attention against the plain formula in double, and what is said
 * of a length whose scores do not fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "bench/textbook.h"
#include "bench/textbook_report.h"

#define HEADS 2
#define LENGTH_MAX 512
#define DIM_MAX 64

static float q[HEADS * LENGTH_MAX * DIM_MAX], k[HEADS * LENGTH_MAX * DIM_MAX],
    v[HEADS * LENGTH_MAX * DIM_MAX], o[HEADS * LENGTH_MAX * DIM_MAX];

/* Numbers in [-2, 2). */
static void fill(float *x, uint32_t seed)
{
    for (size_t i = 0; i < HEADS * LENGTH_MAX * DIM_MAX; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-30f;
    }
}

static double dot(const float *a, const float *b, int dim)
{
    double sum = 0;
    for (int d = 0; d < dim; d++)
        sum += (double)a[d] * b[d];
    return sum;
}

/* Row `row` of all heads' rows by the formula. */
static void expected_row(int length, int dim, int row, double out[DIM_MAX])
{
    double weights = 0;
    const int first = row / length * length;
    memset(out, 0, DIM_MAX * sizeof *out);
    for (int n = first; n < first + length; n++) {
        const double weight = exp(dot(q + row * dim, k + n * dim, dim) / sqrt(dim));
        weights += weight;
        for (int d = 0; d < dim; d++)
            out[d] += weight * v[n * dim + d];
    }
    for (int d = 0; d < dim; d++)
        out[d] /= weights;
}

static void check_shape(int length, int dim, int threads)
{
    struct af_textbook textbook = {
        .heads = HEADS, .length = length, .head_dim = dim, .q = q, .k = k, .v = v, .o = o};
    struct af_pool *pool = NULL;
    assert_int_equal(af_pool_new(threads, (struct af_lent_threads){0}, &pool, NULL),
                     ANYFLASH_OK);
    assert_int_equal(af_textbook_allocate(&textbook, NULL), ANYFLASH_OK);
    af_textbook_run(&textbook, pool);
    for (int row = 0; row < HEADS * length; row += 7) {
        double expected[DIM_MAX];
        expected_row(length, dim, row, expected);
        for (int d = 0; d < dim; d++)
            if (!(fabs(o[row * dim + d] - expected[d]) < 1e-5))
                fail_msg("N %d, row %d, column %d: %g instead of %g", length, row, d,
                         (double)o[row * dim + d], expected[d]);
    }
    af_textbook_release(&textbook);
    af_pool_free(pool);
}

static void test_textbook__is_the_formula(void **state)
{
    (void)state;
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    check_shape(256, 32, 1);
    check_shape(256, 64, 2);
    check_shape(512, 64, 2); /* the depth of the second product takes two blocks */
}

/* With no memory to use, the engine runs and textbook attention does not. */
static void test_textbook_next__declines_what_does_not_fit(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_textbook_report report;
    struct af_text table = {0};
    af_arena_init(&arena);
    af_textbook_start(&report, &(struct af_bench_facts){.cpu = "", .threads = 1});
    report.usable_bytes = 4e6;
    assert_int_equal(af_textbook_next(&arena, &report, 0, NULL), ANYFLASH_OK);
    assert_true(report.lines[0].sides[AF_TEXTBOOK_ENGINE].ms.count > 0);
    assert_int_equal(report.lines[0].sides[AF_TEXTBOOK_PLAIN].ms.count, 0);
    af_textbook_table_line(&report, &table);
    assert_non_null(strstr(af_text_get(&table), "  does not fit: needs 0.0 GiB of 0.0 GiB\n"));
    assert_true(table.len <= 97);
    assert_int_equal(af_textbook_next(&arena, &report, 0, NULL), ANYFLASH_OK);
    af_text_release(&table);
    af_arena_release(&arena);
}

/* When the time is used up, neither side runs. */
static void test_textbook_next__declines_what_takes_too_long(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_textbook_report report;
    af_arena_init(&arena);
    af_textbook_start(&report, &(struct af_bench_facts){.cpu = "", .threads = 1});
    assert_int_equal(af_textbook_next(&arena, &report, 0, NULL), ANYFLASH_OK);
    report.start_seconds -= 3600;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(af_textbook_next(&arena, &report, 0, NULL), ANYFLASH_OK);
        for (int side = 0; side < AF_TEXTBOOK_SIDES; side++)
            assert_string_equal(report.lines[report.count - 1].sides[side].decline,
                                "not run: the time is used up");
    }
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_textbook__is_the_formula),
        cmocka_unit_test(test_textbook_next__declines_what_does_not_fit),
        cmocka_unit_test(test_textbook_next__declines_what_takes_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
