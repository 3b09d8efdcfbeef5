/*
 * test_arrays.c: which shapes and strides of arrays make a valid problem and
 * which do not.
 */
#include "bindings/numpy/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static float numbers[4096];
static int32_t integers[64];

/* A contiguous array; sizes after its rank. */
static struct af_array array_of(int32_t type, int32_t rank, ...)
{
    struct af_array array = {.given = true, .type = type, .rank = rank};
    int64_t step = 1;
    va_list sizes;
    va_start(sizes, rank);
    for (int32_t i = 0; i < rank; i++)
        array.sizes[i] = va_arg(sizes, int);
    va_end(sizes);
    for (int32_t i = rank - 1; i >= 0; i--) {
        array.strides[i] = step;
        step *= array.sizes[i];
    }
    array.data = type == AF_ARRAY_I32 ? (void *)integers : (void *)numbers;
    return array;
}

/* q [2, 3, 4, 8] over k, v [2, 5, 2, 8]. */
static struct af_arrays plain(void)
{
    struct af_arrays arrays = {0};
    arrays.q = array_of(ANYFLASH_F32, 4, 2, 3, 4, 8);
    arrays.k = array_of(ANYFLASH_F32, 4, 2, 5, 2, 8);
    arrays.v = array_of(ANYFLASH_F32, 4, 2, 5, 2, 8);
    return arrays;
}

static void assert_refused(const struct af_arrays *arrays, const char *words)
{
    struct anyflash_attend_args args = anyflash_attend_args_init();
    struct anyflash_error err = {0};
    assert_int_equal(af_arrays_problem(arrays, &args, &err), ANYFLASH_E_ARGUMENT);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, words);
}

static void test_rows_before_heads(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    (void)state;
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    assert_int_equal(args.batch, 2);
    assert_int_equal(args.heads, 4);
    assert_int_equal(args.kv_heads, 2);
    assert_int_equal(args.q_len, 3);
    assert_int_equal(args.k_len, 5);
    assert_int_equal(args.q.row_stride, 32);
    assert_int_equal(args.q.head_stride, 8);
}

static void test_heads_before_rows(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    (void)state;
    arrays.heads_first = true;
    arrays.q = array_of(ANYFLASH_F32, 4, 2, 4, 3, 8);
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    assert_int_equal(args.heads, 4);
    assert_int_equal(args.q.head_stride, 24);
    assert_int_equal(args.q.row_stride, 8);
}

static void test_packed_rows_count_as_one_batch(void **state)
{
    struct af_arrays arrays = {.max_seqlen_q = 4, .max_seqlen_k = 4};
    struct anyflash_attend_args args = anyflash_attend_args_init();
    int64_t sizes[AF_ARRAY_RANK_MAX];
    (void)state;
    arrays.q = arrays.k = arrays.v = array_of(ANYFLASH_F16, 3, 9, 2, 8);
    arrays.cu_seqlens_q = arrays.cu_seqlens_k = array_of(AF_ARRAY_I32, 1, 4);
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    assert_int_equal(args.batch, 3);
    assert_int_equal(args.total_q, 9);
    assert_int_equal(args.q_len, 4);
    assert_int_equal(af_arrays_lse_sizes(&args, sizes), 2);
    assert_int_equal(sizes[0], 2);
    assert_int_equal(sizes[1], 9);
}

static void test_pages_have_the_capacity_of_the_table(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    (void)state;
    arrays.k = arrays.v = array_of(ANYFLASH_F32, 4, 7, 16, 2, 8);
    arrays.block_table = array_of(AF_ARRAY_I32, 2, 2, 3);
    arrays.seqused_k = array_of(AF_ARRAY_I32, 1, 2);
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    assert_int_equal(args.page_size, 16);
    assert_int_equal(args.page_count, 7);
    assert_int_equal(args.k_len, 48);
    assert_int_equal(args.block_table_stride, 3);
}

static void test_ranks_and_types_are_refused_by_name(void **state)
{
    struct af_arrays arrays = plain();
    (void)state;
    arrays.q = array_of(ANYFLASH_F32, 0);
    assert_refused(&arrays, "q: has 0 dimensions, expected 4");
    arrays = plain();
    arrays.k = array_of(AF_ARRAY_I32, 4, 2, 5, 2, 8);
    assert_refused(&arrays, "k: its element type");
    arrays = plain();
    arrays.v = array_of(ANYFLASH_BF16, 4, 2, 5, 2, 8);
    assert_refused(&arrays, "q, k and v have different types");
    arrays = plain();
    arrays.v = array_of(0, 4, 2, 5, 2, 8);
    assert_refused(&arrays, "v: its element type");
}

static void test_shapes_that_do_not_agree_are_refused(void **state)
{
    struct af_arrays arrays = plain();
    (void)state;
    arrays.v = array_of(ANYFLASH_F32, 4, 2, 6, 2, 8);
    assert_refused(&arrays, "k and v: dimension 1 is 5 and 6");
    arrays = plain();
    arrays.q = array_of(ANYFLASH_F32, 4, 2, 3, 4, 16);
    assert_refused(&arrays, "head sizes 16 and 8");
    arrays = plain();
    arrays.q = array_of(ANYFLASH_F32, 4, 3, 3, 4, 8);
    assert_refused(&arrays, "k: batch 2, expected 3");
}

static void test_a_stride_in_the_last_dimension_is_refused(void **state)
{
    struct af_arrays arrays = plain();
    (void)state;
    arrays.q.strides[3] = 2;
    assert_refused(&arrays, "q: the last dimension has stride 2");
    arrays = plain();
    arrays.k.strides[3] = -1;
    assert_refused(&arrays, "k: the last dimension has stride -1");
}

static void test_index_arrays_are_refused_by_name(void **state)
{
    struct af_arrays arrays = plain();
    (void)state;
    arrays.seqused_k = array_of(AF_ARRAY_I32, 1, 3);
    assert_refused(&arrays, "seqused_k: has 3 elements, expected 2");
    arrays.seqused_k = array_of(AF_ARRAY_I32, 0);
    assert_refused(&arrays, "seqused_k: must be one");
    arrays.seqused_k = array_of(ANYFLASH_F32, 1, 2);
    assert_refused(&arrays, "seqused_k: its element type is not int32");
    arrays = plain();
    arrays.block_table = array_of(AF_ARRAY_I32, 1, 2);
    assert_refused(&arrays, "block_table");
    arrays = plain();
    arrays.alibi_slopes = array_of(ANYFLASH_F32, 0);
    assert_refused(&arrays, "alibi_slopes");
    arrays = plain();
    arrays.sinks = array_of(ANYFLASH_F32, 1, 3);
    assert_refused(&arrays, "sinks");
}

static void test_a_mask_broadcasts_over_all_but_keys(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    (void)state;
    arrays.mask = array_of(ANYFLASH_BOOL, 2, 3, 5);
    arrays.bias = array_of(ANYFLASH_F16, 4, 2, 1, 1, 5);
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    assert_int_equal(args.mask.row_stride, 5);
    assert_int_equal(args.mask.head_stride, 0);
    assert_int_equal(args.bias.batch_stride, 5);
    assert_int_equal(args.bias.row_stride, 0);
    arrays.mask = array_of(ANYFLASH_BOOL, 2, 3, 1);
    assert_refused(&arrays, "mask: its last dimension must be 5");
    arrays.mask = array_of(ANYFLASH_BOOL, 2, 2, 5);
    assert_refused(&arrays, "mask: dimension 0 is 2, it does not broadcast to 3");
    arrays.mask = array_of(ANYFLASH_BOOL, 0);
    assert_refused(&arrays, "mask: ");
    arrays.mask = array_of(ANYFLASH_F32, 2, 3, 5);
    assert_refused(&arrays, "mask: its element type");
    arrays.bias = array_of(ANYFLASH_BOOL, 2, 3, 5);
    assert_refused(&arrays, "bias: its element type");
}

static void test_an_output_must_have_its_shape(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    struct anyflash_tensor tensor;
    (void)state;
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
    struct af_array out = array_of(ANYFLASH_F32, 4, 2, 3, 4, 8);
    assert_true(af_arrays_rows(&arrays, &args, &out, 8, &tensor));
    out = array_of(ANYFLASH_F32, 4, 2, 2, 4, 8);
    assert_false(af_arrays_rows(&arrays, &args, &out, 8, &tensor));
    out = array_of(ANYFLASH_F32, 0);
    assert_false(af_arrays_rows(&arrays, &args, &out, 8, &tensor));
    struct af_array lse = array_of(ANYFLASH_F32, 3, 2, 4, 3);
    assert_true(af_arrays_set_lse(&lse, &args));
    assert_int_equal(args.lse_head_stride, 3);
    lse.type = ANYFLASH_F16;
    assert_false(af_arrays_set_lse(&lse, &args));
}

static void test_strides_of_an_empty_array_mean_nothing(void **state)
{
    struct af_arrays arrays = plain();
    struct anyflash_attend_args args = anyflash_attend_args_init();
    (void)state;
    arrays.q = array_of(ANYFLASH_F32, 4, 2, 0, 4, 8);
    memset(arrays.q.strides, 0, sizeof arrays.q.strides);
    assert_int_equal(af_arrays_problem(&arrays, &args, NULL), ANYFLASH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_before_heads),
        cmocka_unit_test(test_heads_before_rows),
        cmocka_unit_test(test_packed_rows_count_as_one_batch),
        cmocka_unit_test(test_pages_have_the_capacity_of_the_table),
        cmocka_unit_test(test_ranks_and_types_are_refused_by_name),
        cmocka_unit_test(test_shapes_that_do_not_agree_are_refused),
        cmocka_unit_test(test_a_stride_in_the_last_dimension_is_refused),
        cmocka_unit_test(test_index_arrays_are_refused_by_name),
        cmocka_unit_test(test_a_mask_broadcasts_over_all_but_keys),
        cmocka_unit_test(test_an_output_must_have_its_shape),
        cmocka_unit_test(test_strides_of_an_empty_array_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
