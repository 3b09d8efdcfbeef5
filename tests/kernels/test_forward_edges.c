/*
 * test_forward_edges.c: edge cases of the forward that random problems rarely
 * include: no visible key, NaN and infinity, every head size, keys split over
 * many tasks, tensors inside one buffer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_check.h"

static const int32_t types[] = {ANYFLASH_F32, ANYFLASH_F16, ANYFLASH_BF16};

static struct forward_case *sized_case(uint64_t seed, int32_t dtype, int64_t kv_heads,
                                       int64_t group, int64_t q_len, int64_t k_len, int64_t dim)
{
    struct forward_case *c = case_new(seed, dtype);
    case_sizes(c, 2, kv_heads, group, q_len, k_len, dim, dim);
    return c;
}

/* If few problems are wanted, each size has one of the two lengths, by turns. */
static void test_forward__every_head_size(void **state)
{
    (void)state;
    static const int64_t large[] = {129, 160, 192, 255, 256, 257, 384, 511, 512, 575, 576};
    for (int64_t n = 1; n <= 128 + (int64_t)AF_COUNT(large); n++) {
        int64_t dim = n <= 128 ? n : large[n - 129];
        for (int64_t q_len = 3; q_len <= 30; q_len += 27) {
            if (machine_wants_few() && (n / 3 % 2 == 0) != (q_len == 3))
                continue;
            struct forward_case *c =
                sized_case((uint64_t)n, types[n % 3], 1, 2, q_len, 37, dim);
            case_tensors(c);
            check_case(c);
        }
    }
}

static void test_forward__empty_problems(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 5}, {2, 0, 5}, {2, 5, 0}, {2, 0, 0}, {1, 90, 0}};
    for (size_t n = 0; n < AF_COUNT(sizes) * AF_COUNT(types); n++) {
        const int64_t *size = sizes[n / 3];
        struct forward_case *c = case_new(n, types[n % 3]);
        case_sizes(c, size[0], 2, 3, size[1], size[2], 16, 24);
        case_tensors(c);
        check_case(c);
    }
}

/* Causal rows before the first key, and a mask that hides all keys of some rows. */
static void test_forward__rows_that_see_nothing_are_zero(void **state)
{
    (void)state;
    for (size_t n = 0; n < 4 * AF_COUNT(types); n++) {
        const int64_t q_len = n % 2 == 0 ? 60 : 4;
        struct forward_case *c = sized_case(n, types[n / 4], 1, 2, q_len, 70, 32);
        if (n % 4 < 2) {
            int32_t *offsets = case_indexes(c, 2);
            offsets[0] = -3;
            offsets[1] = -1000;
            c->a.causal = 1;
            c->a.align = ANYFLASH_ALIGN_OFFSETS;
            c->a.causal_offsets = offsets;
        } else {
            c->a.mask = case_tensor(c, ANYFLASH_BOOL, 2, 2, q_len, 70, false);
            for (int64_t i = 0; i < q_len; i += 3)
                memset(af_row_of_tensor(&c->a.mask, 1, 1, 1, i), 0, 70);
        }
        case_tensors(c);
        af_convert_store(types[n / 4],
                         af_row_of_tensor(&c->a.q, af_dtype_bytes(types[n / 4]), 1, 1, 0), 5,
                         NAN); /* a query that nothing is multiplied by */
        case_attend(c, contexts[0], af_cpu_features());
        struct af_problem problem = case_problem(c);
        struct af_sequence s = af_problem_sequence(&problem, 1);
        const char *o = af_row_of_query(&problem.a.o, af_dtype_bytes(c->a.o.dtype), &s, 1, 0);
        for (int64_t d = 0; d < 32; d++)
            assert_true(af_convert_load(c->a.o.dtype, o, d) == 0);
        assert_true(*af_lse_at(&problem, &s, 1, 0) == -INFINITY);
        check_case(c);
    }
}

/* A bias of minus infinity hides a key as a mask does. */
static void test_forward__a_bias_of_minus_infinity_hides(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        const int64_t q_len = n % 2 == 0 ? 60 : 4;
        struct forward_case *c = sized_case(n, types[n / 2], 1, 2, q_len, 70, 32);
        c->a.bias = case_tensor(c, types[n / 2], 2, 2, q_len, 70, false);
        for (int64_t i = 0; i < q_len; i++) {
            char *row = af_row_of_tensor(&c->a.bias, af_dtype_bytes(types[n / 2]), 0, 1, i);
            for (int64_t j = i % 2 == 0 ? 0 : 7; j < 70; j++)
                af_convert_store(types[n / 2], row, j, -INFINITY);
        }
        case_tensors(c);
        check_case(c);
    }
}

/* Compares all rows with the oracle: check_case()'s bound would be as large as the scores. */
static void check_closely(struct forward_case *c, const char *kernel)
{
    const struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(&problem, b);
        for (int64_t n = 0; n < a->heads * a->q_len; n++) {
            const double lse = c->want_lse[b * a->heads * a->q_len + n];
            check_row(c, kernel, &problem, &s, n / a->q_len, n % a->q_len, 0.03,
                      isfinite(lse) ? 0.01 + 0x1p-22 * fabs(lse) : 0);
        }
    }
}

static void check_levels_closely(struct forward_case *c)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    case_seal(c);
    for (size_t k = 0; k < count; k++) {
        if (kernels[k]->operation != AF_FORWARD || (int32_t)kernels[k]->dtype != c->dtype ||
            !machine_runs(kernels[k]))
            continue;
        case_attend(c, contexts[1], (2 * kernels[k]->needs - 1) & af_cpu_features());
        check_closely(c, kernels[k]->name);
    }
    case_free(c);
}

/* Rows of the lowest numbers, of some and minus infinity, of numbers of every size. */
static float extreme(struct forward_case *c, int64_t row, float lowest)
{
    const float all[] = {-INFINITY, lowest, lowest, lowest / 2, -1e9f, 0, -lowest};
    if (row % 4 == 0)
        return lowest;
    return all[case_pick(c, 0, row % 4 == 1 ? 1 : row % 4 == 2 ? 4 : 6)];
}

/*
 * Models put the lowest number of a type into rows of padding; times log2(e) it is infinite. If
 * few problems are wanted, many keys have many queries or few, by turns.
 */
static void test_forward__only_minus_infinity_hides(void **state)
{
    (void)state;
    static const float lowest[] = {-0x1.fffffep127f, -65504, -0x1.fep127f};
    for (size_t n = 0; n < 2 * 2 * 3 * AF_COUNT(types); n++) {
        const int32_t type = types[n / 12];
        const int64_t q_len = n % 2 == 0 ? 60 : 4, k_len = n / 2 % 2 == 0 ? 3 : 2100;
        if (machine_wants_few() && k_len > 3 && n % 2 != n / 4 % 2)
            continue;
        struct forward_case *c = sized_case(n, type, 1, 2, q_len, k_len, 32);
        c->a.scale = 1e-6f; /* a float and a double near 1e9 are the same */
        const int32_t of_bias = n / 4 % 3 == 0 ? ANYFLASH_F32 : type;
        c->a.bias = case_tensor(c, of_bias, 2, 2, q_len, k_len, false);
        for (int64_t row = 0; row < 4 * q_len; row++) {
            char *at = af_row_of_tensor(&c->a.bias, af_dtype_bytes(of_bias), row / q_len / 2,
                                        row / q_len % 2, row % q_len);
            for (int64_t j = 0; j < k_len; j++)
                af_convert_store(of_bias, at, j,
                                 extreme(c, row, lowest[of_bias == ANYFLASH_F32 ? 0 : n / 12]));
        }
        if (n / 4 % 3 == 2)
            c->a.sinks = case_floats(c, c->a.heads);
        case_tensors(c);
        check_levels_closely(c);
    }
}

static void spoil(const struct anyflash_tensor *tensor, int64_t row, int64_t d, float number)
{
    char *at = af_row_of_tensor(tensor, af_dtype_bytes(tensor->dtype), 0, 0, row);
    af_convert_store(tensor->dtype, at, d, number);
}

static void test_forward__nan_and_infinity_go_where_the_oracle_sends_them(void **state)
{
    (void)state;
    static const float numbers[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < 2 * 2 * 9 * AF_COUNT(types); n++) {
        const int64_t q_len = n % 2 == 0 ? 100 : 5;
        const float number = numbers[n / 2 % 3];
        struct forward_case *c = sized_case(n, types[n / 18 % 3], 1, 2, q_len, 100, 24);
        c->a.causal = 1;
        if (n / 18 >= AF_COUNT(types))
            c->key_dtype = ANYFLASH_F8_E5M2;
        case_tensors(c);
        if (c->key_dtype == ANYFLASH_F8_E5M2)
            case_scales(c);
        if (n / 6 % 3 == 0)
            spoil(&c->a.q, q_len - 2, 3, number);
        else if (n / 6 % 3 == 1)
            spoil(&c->a.k, 97, 5, number);
        else
            spoil(&c->a.v, 97, 5, number);
        check_case(c);
    }
}

/* One visible key has every fp8 number as a value: the output is that times the scale. */
static void test_forward__every_fp8_number_is_exact(void **state)
{
    (void)state;
    static const int32_t f8s[] = {ANYFLASH_F8_E4M3, ANYFLASH_F8_E5M2};
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        struct forward_case *c = case_new(n, types[n / 2]);
        c->key_dtype = f8s[n % 2];
        case_sizes(c, 1, 1, 2, 1, 1, 8, 256);
        case_tensors(c);
        case_scales(c);
        float *v_scale = case_floats(c, 1);
        v_scale[0] = 4;
        c->a.v_scales = v_scale;
        for (int code = 0; code < 256; code++)
            ((uint8_t *)c->a.v.data)[code] = (uint8_t)code;
        check_case(c);
    }
}

/* Scales that differ from head to head, and from sequence to sequence or page to page. */
static void test_forward__fp8_scales_are_those_of_their_keys(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * 2 * AF_COUNT(types); n++) {
        const bool paged = n / 2 % 2 == 1;
        struct forward_case *c =
            sized_case(n, types[n / 4], 2, 2, n % 2 == 0 ? 60 : 2, 200, 40);
        struct anyflash_attend_args *a = &c->a;
        int32_t *used = case_indexes(c, a->batch);
        used[0] = used[1] = 200;
        a->seqused_k = used;
        a->page_size = paged ? 16 : 0;
        a->page_count = paged ? 26 : 0;
        a->block_table_stride = paged ? 13 : 0;
        a->block_table = paged ? case_permutation(c, a->page_count) : NULL;
        c->key_dtype = ANYFLASH_F8_E4M3;
        case_tensors(c);
        const int64_t scales = (paged ? a->page_count : a->batch) * a->kv_heads;
        float *k_scales = case_floats(c, scales), *v_scales = case_floats(c, scales);
        for (int64_t i = 0; i < scales; i++) {
            k_scales[i] = 0.5f + 0.125f * (float)(i % 3);
            v_scales[i] = 1.5f - 0.25f * (float)(i % 4);
        }
        a->k_scales = k_scales;
        a->v_scales = v_scales;
        a->scale_stride = a->kv_heads;
        a->scale_per_page = paged;
        check_case(c);
    }
}

/* So many heads share their keys that all rows of a tile are one query and see the same. */
static void test_forward__a_tile_of_one_query_ends_before_nan(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct forward_case *c = sized_case(n, types[n], 1, 96, 4, 100, 24);
        c->a.causal = 1;
        case_tensors(c);
        spoil(&c->a.v, 99, 5, NAN);
        check_case(c);
    }
}

/* Rows [begin, end) of a tensor with two columns become (x, y). */
static void set_rows(const struct anyflash_tensor *tensor, int64_t begin, int64_t end, float x,
                     float y)
{
    for (int64_t row = begin; row < end; row++) {
        spoil(tensor, row, 0, x);
        spoil(tensor, row, 1, y);
    }
}

/*
 * Numbers whose lower three bits decide, for kernels that multiply f16 in parts: a score and
 * its value, exact in f16, alone and beside infinity; weights just below 1.
 */
static void test_forward__every_bit_of_f16_counts(void **state)
{
    (void)state;
    const float x = 1 + 3 * 0x1p-10f;
    for (int n = 0; n < 3; n++) {
        const int64_t keys = n == 2 ? 31 : 1;
        struct forward_case *c = case_new((uint64_t)n, ANYFLASH_F16);
        case_sizes(c, 1, 1, 1, 20, keys, 2, 2);
        c->plain_strides = true;
        c->a.scale = 1;
        case_tensors(c);
        set_rows(&c->a.q, 0, 20, x, 1);
        set_rows(&c->a.k, 0, 1, n < 2 ? x : 0, n < 2 ? -9 * 0x1p-20f : 0);
        set_rows(&c->a.v, 0, 1, n == 1 ? INFINITY : n < 1 ? x : 0, n < 2 ? -x : 0);
        set_rows(&c->a.k, 1, keys, 0, -0x1p-9f);
        set_rows(&c->a.v, 1, keys, 1, -1);
        check_case(c);
    }
}

/*
 * A key with a bias of minus infinity has weight 0 but is not hidden: 0 times a
 * nonfinite value is NaN. Rows that do not see the key are not affected.
 */
static void test_forward__a_weight_of_zero_times_nan_is_nan(void **state)
{
    (void)state;
    static const float numbers[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < 2 * 2 * 3 * AF_COUNT(types); n++) {
        const int64_t q_len = n % 2 == 0 ? 100 : 5;
        struct forward_case *c = sized_case(n, types[n / 12], 1, 2, q_len, 100, 24);
        c->a.causal = n / 2 % 2 == 0;
        c->a.bias = case_tensor(c, types[n / 12], 2, 2, q_len, 100, false);
        for (int64_t i = 0; i < q_len; i++) {
            char *row = af_row_of_tensor(&c->a.bias, af_dtype_bytes(types[n / 12]), 0, 0, i);
            af_convert_store(types[n / 12], row, 97, -INFINITY);
        }
        case_tensors(c);
        spoil(&c->a.v, 97, 5, numbers[n / 4 % 3]);
        check_case(c);
    }
}

/* The same for such keys in a split of their own, and for rows that see only such keys. */
static void test_forward__parts_of_weight_zero_may_hold_nan(void **state)
{
    (void)state;
    for (size_t n = 0; n < 4 * AF_COUNT(types); n++) {
        const int32_t type = types[n / 4];
        if (machine_wants_few() && n % 2 != (n / 2 + n / 4) % 2) /* half, by turns */
            continue;
        struct forward_case *c = sized_case(n, type, 1, 2, n % 2 == 0 ? 60 : 1, 2100, 24);
        c->a.bias = case_tensor(c, type, 1, 1, 1, 2100, false);
        c->a.bias.batch_stride = c->a.bias.head_stride = c->a.bias.row_stride = 0;
        for (int64_t j = n / 2 % 2 == 0 ? 0 : 700; j < 2100; j++)
            af_convert_store(type, c->a.bias.data, j, -INFINITY);
        case_tensors(c);
        spoil(&c->a.v, 2000, 5, NAN);
        check_case(c);
    }
}

static void test_forward__a_row_that_sees_one_key_is_its_value(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 3 * 24 * (int64_t)AF_COUNT(types); n++) {
        static const int64_t dims[] = {64, 128, 40};
        struct forward_case *c = sized_case((uint64_t)n, types[n / 72], 1 + n % 2, 1,
                                            1 + n % 24, 1, dims[n / 24 % 3]);
        c->a.softcap = n % 7 == 0 ? 3 : 0;
        c->plain_strides = true;
        case_tensors(c);
        c->a.o.dtype = types[n / 72];
        case_seal(c);
        case_attend(c, contexts[0], af_cpu_features());
        const size_t bytes = af_dtype_bytes(c->dtype);
        for (int64_t r = 0; r < c->a.batch * c->a.heads * c->a.q_len; r++) {
            const int64_t i = r % c->a.q_len, h = r / c->a.q_len % c->a.heads;
            const int64_t b = r / c->a.q_len / c->a.heads;
            assert_memory_equal(af_row_of_tensor(&c->a.o, bytes, b, h, i),
                                af_row_of_tensor(&c->a.v, bytes, b, h, 0),
                                (size_t)c->a.value_dim * bytes);
        }
        case_free(c);
    }
}

static void test_forward__few_rows_split_many_keys(void **state)
{
    (void)state;
    static const int64_t keys[] = {511, 512, 1024, 4099};
    for (size_t n = 0; n < AF_COUNT(keys) * AF_COUNT(types); n++) {
        struct forward_case *c = sized_case(n, types[n % 3], 1, n % 2 == 0 ? 8 : 1,
                                            1 + (int64_t)n % 3, keys[n / 3], 64);
        c->a.window_left = n % 4 == 0 ? 700 : -1;
        case_tensors(c);
        if (n % 4 == 1)
            c->a.sinks = case_floats(c, c->a.heads);
        check_case(c);
    }
}

/*
 * Keys [first, end) of a cache of 96, `first` and the keys missing at the end from 0 to 47: a
 * row's groups of keys begin at a multiple of 16, and the rest of both ends is computed apart.
 */
static void test_forward__a_query_may_see_any_range_of_keys(void **state)
{
    (void)state;
    static const int64_t groups[] = {1, 1, 1, 2, 8}, dims[] = {64, 128, 40};
    for (size_t n = 0; n < 5 * 3 * AF_COUNT(types); n++) {
        const int64_t batch = 48;
        struct forward_case *c = case_new(n, types[n / 15]);
        case_sizes(c, batch, 1, groups[n % 5], 1, 96, dims[n / 5 % 3], dims[n / 5 % 3]);
        int32_t *used = case_indexes(c, batch), *leftpad = case_indexes(c, batch);
        for (int64_t b = 0; b < batch; b++) {
            used[b] = 96 - (int32_t)(b * 7 % 48);
            leftpad[b] = n % 5 == 1 ? 0 : (int32_t)b;
        }
        c->a.window_left = n % 5 == 1 ? 20 + (int64_t)n : -1;
        c->a.seqused_k = used;
        c->a.leftpad_k = leftpad;
        if (n % 5 == 2) {
            c->a.page_size = 16;
            c->a.block_table_stride = 6;
            c->a.page_count = batch * 6;
            c->a.block_table = case_permutation(c, c->a.page_count);
        }
        case_tensors(c);
        check_case(c);
    }
}

static void test_forward__tile_rows_split_many_keys(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct forward_case *c = sized_case(n, types[n], 1, 1, 40, 3001, 40);
        c->a.causal = 1;
        case_tensors(c);
        check_case(c);
    }
}

/* q, k and v as they come from one projection: [B, S, 3, H, D]. */
static void test_forward__tensors_interleaved_in_one_buffer(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct forward_case *c = sized_case(n, types[n], 3, 1, 70, 70, 16);
        case_tensors(c);
        struct anyflash_tensor all = anyflash_bshd(NULL, types[n], 9, 70, 16);
        struct guard *guard = case_bytes(c, 2 * 9 * 70 * 16 * af_dtype_bytes(types[n]), false);
        case_fill(c, types[n], guard->bytes, 2 * 9 * 70 * 16);
        c->a.q = c->a.k = c->a.v = all;
        c->a.q.data = guard->bytes;
        c->a.k.data = guard->bytes + 3 * 16 * af_dtype_bytes(types[n]);
        c->a.v.data = guard->bytes + 6 * 16 * af_dtype_bytes(types[n]);
        check_case(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward__every_head_size),
        cmocka_unit_test(test_forward__empty_problems),
        cmocka_unit_test(test_forward__rows_that_see_nothing_are_zero),
        cmocka_unit_test(test_forward__a_bias_of_minus_infinity_hides),
        cmocka_unit_test(test_forward__only_minus_infinity_hides),
        cmocka_unit_test(test_forward__nan_and_infinity_go_where_the_oracle_sends_them),
        cmocka_unit_test(test_forward__every_fp8_number_is_exact),
        cmocka_unit_test(test_forward__fp8_scales_are_those_of_their_keys),
        cmocka_unit_test(test_forward__a_tile_of_one_query_ends_before_nan),
        cmocka_unit_test(test_forward__every_bit_of_f16_counts),
        cmocka_unit_test(test_forward__a_weight_of_zero_times_nan_is_nan),
        cmocka_unit_test(test_forward__parts_of_weight_zero_may_hold_nan),
        cmocka_unit_test(test_forward__a_row_that_sees_one_key_is_its_value),
        cmocka_unit_test(test_forward__few_rows_split_many_keys),
        cmocka_unit_test(test_forward__a_query_may_see_any_range_of_keys),
        cmocka_unit_test(test_forward__tile_rows_split_many_keys),
        cmocka_unit_test(test_forward__tensors_interleaved_in_one_buffer),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
