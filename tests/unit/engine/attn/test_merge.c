/*
 * test_merge.c: merging the results for disjoint keys gives the whole result;
 * which arguments are rejected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

enum { ROWS = 6, DV = 70, PARTS = 3 };

static float part_o[PARTS][ROWS * DV], part_lse[PARTS][ROWS], o[ROWS * DV], lse[ROWS];
static const float *parts[PARTS] = {part_o[0], part_o[1], part_o[2]};
static const float *lses[PARTS] = {part_lse[0], part_lse[1], part_lse[2]};

/* Attention of 2 heads and 3 queries over keys [first, end) of 9, causal. */
static void attend(int32_t first, int32_t end, double *o_out, double *lse_out)
{
    static struct sample s;
    static const int32_t offset = 0;
    sample_init(&s, 1, 2, 1, 3, 9, 4, DV);
    s.a.leftpad_k = &first;
    s.a.seqused_k = &end;
    s.a.window_right = 4;
    s.a.align = ANYFLASH_ALIGN_OFFSETS;
    s.a.causal_offsets = &offset;
    sample_forward(&s.a, o_out, lse_out);
}

/* Keys 0 to 2, 3 to 4 and 5 to 8: the last part has rows without a key. */
static void fill_parts(void)
{
    static const int32_t cut[] = {0, 3, 5, 9};
    double exact_o[ROWS * DV], exact_lse[ROWS];
    for (int n = 0; n < PARTS; n++) {
        attend(cut[n], cut[n + 1], exact_o, exact_lse);
        for (int x = 0; x < ROWS * DV; x++)
            part_o[n][x] = (float)exact_o[x];
        for (int x = 0; x < ROWS; x++)
            part_lse[n][x] = (float)exact_lse[x];
    }
    assert_true(part_lse[2][0] == -INFINITY && isfinite(part_lse[2][1]));
}

static void expect_whole(const float *got_o, const float *got_lse)
{
    double whole_o[ROWS * DV], whole_lse[ROWS], wide_o[ROWS * DV], wide_lse[ROWS];
    attend(0, 9, whole_o, whole_lse);
    for (int x = 0; x < ROWS * DV; x++)
        wide_o[x] = (double)got_o[x];
    for (int x = 0; x < ROWS; x++)
        wide_lse[x] = (double)got_lse[x];
    assert_near(wide_o, whole_o, ROWS * DV, 1e-6);
    assert_near(wide_lse, whole_lse, ROWS, 1e-6);
}

static void test_merge__parts_give_the_whole(void **state)
{
    (void)state;
    fill_parts();
    assert_int_equal(anyflash_merge(parts, lses, PARTS, ROWS, DV, o, lse, NULL), ANYFLASH_OK);
    expect_whole(o, lse);
}

static void test_merge__into_part_0(void **state)
{
    (void)state;
    fill_parts();
    assert_int_equal(anyflash_merge(parts, lses, PARTS, ROWS, DV, part_o[0], part_lse[0], NULL),
                     ANYFLASH_OK);
    expect_whole(part_o[0], part_lse[0]);
}

static void test_merge__rows_without_keys_and_nan(void **state)
{
    (void)state;
    fill_parts();
    for (int n = 0; n < PARTS; n++) {
        part_lse[n][0] = -INFINITY;
        part_o[n][0] = NAN; /* of a part without keys: does not count */
    }
    part_lse[1][1] = NAN;
    assert_int_equal(anyflash_merge(parts, lses, PARTS, ROWS, DV, o, lse, NULL), ANYFLASH_OK);
    assert_true(lse[0] == -INFINITY && o[0] == 0 && o[DV - 1] == 0);
    assert_true(isnan(lse[1]) && isnan(o[DV]) && isfinite(o[2 * DV]));
}

static void test_merge__one_part_is_itself(void **state)
{
    (void)state;
    fill_parts();
    assert_int_equal(anyflash_merge(parts, lses, 1, ROWS, DV, o, lse, NULL), ANYFLASH_OK);
    assert_memory_equal(o, part_o[0], sizeof o);
    assert_memory_equal(lse, part_lse[0], sizeof lse);
}

static void expect_refusal(const float *const *p, const float *const *l, int64_t count,
                           int64_t rows, int64_t value_dim, float *to, float *to_lse,
                           const char *text)
{
    struct anyflash_error err = {0};
    assert_int_equal(anyflash_merge(p, l, count, rows, value_dim, to, to_lse, &err),
                     ANYFLASH_E_ARGUMENT);
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' lacks '%s'", err.message, text);
}

static void test_merge__refuses(void **state)
{
    (void)state;
    const float *absent[PARTS] = {part_o[0], NULL, part_o[2]};
    float *odd = (float *)(void *)((char *)o + 1);
    expect_refusal(parts, lses, 0, ROWS, DV, o, lse, "count is 0");
    expect_refusal(parts, lses, PARTS, -1, DV, o, lse, "rows -1");
    expect_refusal(parts, lses, PARTS, ROWS, 0, o, lse, "value_dim 0");
    expect_refusal(NULL, lses, PARTS, ROWS, DV, o, lse, "parts is NULL");
    expect_refusal(parts, NULL, PARTS, ROWS, DV, o, lse, "part_lses is NULL");
    expect_refusal(parts, lses, PARTS, ROWS, DV, NULL, lse, "o is NULL");
    expect_refusal(parts, lses, PARTS, ROWS, DV, o, NULL, "lse is NULL");
    expect_refusal(absent, lses, PARTS, ROWS, DV, o, lse, "a part is NULL");
    expect_refusal(parts, lses, PARTS, ROWS, DV, odd, lse, "aligned to 4 bytes");
    expect_refusal(parts, lses, PARTS, INT64_MAX, DV, o, lse, "leaves the address space");
    expect_refusal(parts, lses, PARTS, ROWS, DV, o, o + 1, "o at 0x");
    expect_refusal(parts, lses, PARTS, ROWS, DV, part_o[1], lse, "overlaps o of part 1");
    expect_refusal(parts, lses, PARTS, 2, DV, part_o[0] + DV, lse, "overlaps o of part 0");
    expect_refusal(parts, lses, PARTS, ROWS, DV, o, part_lse[2], "overlaps lse of part 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge__parts_give_the_whole),
        cmocka_unit_test(test_merge__into_part_0),
        cmocka_unit_test(test_merge__rows_without_keys_and_nan),
        cmocka_unit_test(test_merge__one_part_is_itself),
        cmocka_unit_test(test_merge__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
