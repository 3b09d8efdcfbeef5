/*
 * test_long.c: rounding errors do not accumulate over many blocks of keys. With
 * queries of 0 every score is equal, so lse is log(keys) and o is the mean of the
 * values. Many heads share their keys, so that the keys are not split.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "anyflash/anyflash.h"

#include <math.h>
#include <stdlib.h>

enum { HEADS = 64, KEYS = 16384, DIM = 4 };

/* Attention of `rows` zero queries per head over KEYS values of 1; checks every row. */
static void check_rows(int rows)
{
    float *q = calloc((size_t)HEADS * (size_t)rows * DIM, sizeof *q);
    float *k = calloc((size_t)KEYS * DIM, sizeof *k);
    float *v = malloc((size_t)KEYS * DIM * sizeof *v);
    float *o = malloc((size_t)HEADS * (size_t)rows * DIM * sizeof *o);
    float *lse = malloc((size_t)HEADS * (size_t)rows * sizeof *lse);
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    assert_true(q != NULL && k != NULL && v != NULL && o != NULL && lse != NULL);
    for (int i = 0; i < KEYS * DIM; i++)
        v[i] = 1;
    args.batch = 1;
    args.heads = args.kv_heads = HEADS;
    args.q_len = rows;
    args.k_len = KEYS;
    args.head_dim = args.value_dim = DIM;
    args.q = anyflash_bhsd(q, ANYFLASH_F32, HEADS, rows, DIM);
    args.k = anyflash_bhsd(k, ANYFLASH_F32, 1, KEYS, DIM);
    args.v = anyflash_bhsd(v, ANYFLASH_F32, 1, KEYS, DIM);
    args.o = anyflash_bhsd(o, ANYFLASH_F32, HEADS, rows, DIM);
    args.k.head_stride = args.v.head_stride = 0;
    args.lse = lse;
    args.lse_batch_stride = (int64_t)HEADS * rows;
    args.lse_head_stride = rows;
    assert_int_equal(anyflash_attend(NULL, &args, NULL), ANYFLASH_OK);
    for (int i = 0; i < HEADS * rows; i++) {
        assert_true(fabs((double)lse[i] - log(KEYS)) < 2e-6);
        assert_true(fabs((double)o[i * DIM] - 1) < 2e-6);
    }
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
}

static void test_long__many_queries(void **state)
{
    (void)state;
    check_rows(70);
}

static void test_long__one_query(void **state)
{
    (void)state;
    check_rows(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long__many_queries),
        cmocka_unit_test(test_long__one_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
