/*
 * test_oracle.c: compares the oracle with numbers computed by hand, with
 * pictures of what is visible, and with itself in another layout.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#include "engine/base/mem.h"

static struct sample s;
static double o[SAMPLE_MAX], lse[SAMPLE_MAX], other_o[SAMPLE_MAX], other_lse[SAMPLE_MAX];

/* One query, two keys, D 1, scores x0 and x1, values 10 and 40. */
static void start_tiny(float x0, float x1)
{
    sample_init(&s, 1, 1, 1, 1, 2, 1, 1);
    s.a.scale = 1;
    s.q[0] = 1;
    s.k[0] = x0;
    s.k[1] = x1;
    s.v[0] = 10;
    s.v[1] = 40;
}

static void expect_tiny(double want_o, double want_lse)
{
    sample_forward(&s.a, o, lse);
    assert_near(o, &want_o, 1, 1e-5);
    assert_near(lse, &want_lse, 1, 1e-6);
}

static void test_oracle__softmax_of_two_keys(void **state)
{
    (void)state;
    start_tiny(0, logf(2));
    expect_tiny(30, log(3));
}

static void test_oracle__scale_defaults_to_root_of_head_dim(void **state)
{
    (void)state;
    sample_init(&s, 1, 1, 1, 1, 2, 4, 1);
    memset(s.k, 0, sizeof s.k);
    s.q[0] = 2;
    s.k[4] = logf(2);
    s.v[0] = 10;
    s.v[1] = 40;
    expect_tiny(30, log(3));
}

static void test_oracle__softcap(void **state)
{
    (void)state;
    start_tiny(0, 2 * atanhf(0.25f));
    s.a.softcap = 2;
    expect_tiny(10 + 30 / (1 + exp(-0.5)), log(1 + exp(0.5)));
}

static void test_oracle__bias_comes_after_softcap(void **state)
{
    (void)state;
    start_tiny(0, 100);
    s.a.softcap = 0.5f;
    sample_use_bias(&s);
    s.bias[0] = 0.5f;
    s.bias[1] = 0;
    expect_tiny(25, 0.5 + log(2));
}

static void test_oracle__alibi_counts_from_the_diagonal(void **state)
{
    (void)state;
    start_tiny(0, 0);
    s.a.alibi_slopes = s.slopes;
    s.slopes[0] = (float)M_LN2;
    expect_tiny(30, log(1.5)); /* p = 1: |p - 0| = 1, |p - 1| = 0 */
}

static void test_oracle__sink_takes_weight_and_gives_no_value(void **state)
{
    (void)state;
    start_tiny(0, 0);
    s.a.sinks = s.sinks;
    s.sinks[0] = (float)log(3);
    expect_tiny(10, log(5));
}

static void test_oracle__only_a_sink(void **state)
{
    (void)state;
    start_tiny(0, 0);
    s.a.k_len = 0;
    s.a.sinks = s.sinks;
    s.sinks[0] = 1.5f;
    expect_tiny(0, 1.5);
}

static void test_oracle__no_key_gives_zero_and_minus_infinity(void **state)
{
    (void)state;
    start_tiny(0, 0);
    s.a.k_len = 0;
    expect_tiny(0, -INFINITY);
    start_tiny(0, 0);
    s.a.sinks = s.sinks;
    s.sinks[0] = -INFINITY;
    s.a.k_len = 0;
    expect_tiny(0, -INFINITY);
}

static void test_oracle__scores_of_minus_infinity_count_as_masked(void **state)
{
    (void)state;
    start_tiny(0, 0);
    sample_use_bias(&s);
    s.bias[0] = s.bias[1] = -INFINITY;
    expect_tiny(0, -INFINITY);
    s.bias[1] = 0;
    expect_tiny(40, 0);
}

static void test_oracle__nan_and_infinity_reach_the_rows_that_see_them(void **state)
{
    (void)state;
    start_tiny(0, NAN);
    expect_tiny(NAN, NAN);
    start_tiny(0, INFINITY);
    expect_tiny(NAN, NAN);
    start_tiny(0, 0);
    s.v[1] = INFINITY;
    expect_tiny(INFINITY, log(2));
    start_tiny(NAN, NAN);
    s.a.sinks = s.sinks;
    expect_tiny(NAN, NAN);
}

static void test_oracle__hidden_keys_are_not_looked_at(void **state)
{
    (void)state;
    start_tiny(0, NAN);
    s.v[1] = NAN;
    s.a.causal = 1;
    s.a.align = ANYFLASH_ALIGN_TOP_LEFT;
    expect_tiny(10, 0);
}

static void test_oracle__dropout_keeps_by_philox_and_rescales(void **state)
{
    (void)state;
    sample_init(&s, 1, 1, 1, 32, 32, 1, 32);
    s.a.dropout = 0.25f;
    s.a.dropout_seed = 7;
    memset(s.q, 0, sizeof s.q);
    memset(s.v, 0, sizeof s.v);
    for (int j = 0; j < 32; j++)
        s.v[j * 32 + j] = 1;
    sample_forward(&s.a, o, lse);
    int kept = 0;
    for (int n = 0; n < 32 * 32; n++) {
        assert_true(o[n] == 0 || fabs(o[n] - 1 / (32 * 0.75)) < 1e-12);
        kept += o[n] != 0;
    }
    assert_true(kept >= 32 * 32 * 0.70 && kept <= 32 * 32 * 0.80);
    assert_near(lse, (const double[]){log(32)}, 1, 1e-12);
}

/* What queries see, drawn: a line per query, '#' visible, '.' hidden. */
static const struct picture {
    const char *name;
    int64_t q_len, k_len, window_left, window_right;
    int causal, align, offset, leftpad, used; /* used 0: all */
    const char *seen;
} pictures[] = {
    {"all", 2, 3, -1, -1, 0, 0, 0, 0, 0, "### ###"},
    {"causal", 3, 3, -1, -1, 1, 0, 0, 0, 0, "#.. ##. ###"},
    {"bottom right, more keys", 2, 4, -1, -1, 1, 0, 0, 0, 0, "###. ####"},
    {"bottom right, more queries", 4, 2, -1, -1, 1, 0, 0, 0, 0, ".. .. #. ##"},
    {"top left, more keys", 2, 4, -1, -1, 1, 1, 0, 0, 0, "#... ##.."},
    {"top left, more queries", 3, 2, -1, -1, 1, 1, 0, 0, 0, "#. ## ##"},
    {"offset 1", 2, 4, -1, -1, 1, 2, 1, 0, 0, "##.. ###."},
    {"negative offset", 3, 3, -1, -1, 1, 2, -2, 0, 0, "... ... #.."},
    {"offset far right", 2, 3, -1, -1, 1, 2, INT32_MAX, 0, 0, "### ###"},
    {"offset far left", 2, 3, -1, -1, 1, 2, INT32_MIN, 0, 0, "... ..."},
    {"window left", 4, 4, 1, -1, 0, 0, 0, 0, 0, "#### #### .### ..##"},
    {"window right", 4, 4, -1, 1, 0, 0, 0, 0, 0, "##.. ###. #### ####"},
    {"window both", 4, 4, 1, 1, 0, 0, 0, 0, 0, "##.. ###. .### ..##"},
    {"window of one", 3, 3, 0, 0, 0, 0, 0, 0, 0, "#.. .#. ..#"},
    {"causal window", 4, 4, 1, -1, 1, 0, 0, 0, 0, "#... ##.. .##. ..##"},
    {"causal beats window right", 2, 3, -1, 5, 1, 1, 0, 0, 0, "#.. ##."},
    {"window bottom right", 2, 5, 1, 0, 0, 0, 0, 0, 0, "..##. ...##"},
    {"window past the keys", 3, 2, 0, -1, 0, 2, 1, 0, 0, ".# .. .."},
    {"window before the keys", 2, 2, -1, 0, 0, 2, -2, 0, 0, ".. .."},
    {"left padding", 2, 4, -1, -1, 0, 0, 0, 2, 0, "..## ..##"},
    {"left padding, causal", 3, 4, -1, -1, 1, 0, 0, 2, 0, ".... ..#. ..##"},
    {"all padding", 1, 3, -1, -1, 0, 0, 0, 3, 0, "..."},
    {"used keys", 2, 4, -1, -1, 0, 0, 0, 0, 3, "###. ###."},
    {"used keys, causal", 2, 4, -1, -1, 1, 0, 0, 0, 3, "##.. ###."},
};

static void test_visibility__as_drawn(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(pictures); n++) {
        const struct picture *p = &pictures[n];
        const int32_t offset = p->offset, leftpad = p->leftpad, used = p->used;
        sample_init(&s, 1, 1, 1, p->q_len, p->k_len, 2, p->k_len);
        s.a.causal = p->causal;
        s.a.align = p->align;
        s.a.window_left = p->window_left;
        s.a.window_right = p->window_right;
        s.a.causal_offsets = p->align == ANYFLASH_ALIGN_OFFSETS ? &offset : NULL;
        s.a.leftpad_k = leftpad > 0 ? &leftpad : NULL;
        s.a.seqused_k = used > 0 ? &used : NULL;
        for (int64_t j = 0; j < p->k_len * p->k_len; j++)
            s.v[j] = j % (p->k_len + 1) == 0;
        sample_forward(&s.a, o, lse);
        for (int64_t i = 0; i < p->q_len; i++) {
            bool any = false;
            for (int64_t j = 0; j < p->k_len; j++) {
                bool seen = o[i * p->k_len + j] > 0;
                any = any || seen;
                if (seen != (p->seen[i * (p->k_len + 1) + j] == '#'))
                    fail_msg("%s: query %d, key %d", p->name, (int)i, (int)j);
            }
            assert_int_equal(any, isfinite(lse[i]));
        }
    }
}

static void test_visibility__mask_takes_keys_out(void **state)
{
    (void)state;
    sample_init(&s, 1, 1, 1, 2, 3, 2, 3);
    sample_use_mask(&s);
    memcpy(s.mask, (const unsigned char[]){1, 0, 2, 0, 0, 0}, 6);
    for (int j = 0; j < 9; j++)
        s.v[j] = j % 4 == 0;
    sample_forward(&s.a, o, lse);
    assert_true(o[0] > 0 && o[1] == 0 && o[2] > 0);
    assert_true(o[3] == 0 && o[4] == 0 && o[5] == 0 && lse[1] == -INFINITY);
}

static void test_oracle__shared_key_heads_are_repeated_heads(void **state)
{
    (void)state;
    sample_init(&s, 2, 6, 2, 3, 5, 4, 3);
    sample_forward(&s.a, o, lse);
    static struct sample full;
    sample_init(&full, 2, 6, 6, 3, 5, 4, 3);
    for (int64_t n = 0; n < 2 * 5 * 6; n++) {
        int64_t from = n / 6 * 2 + n % 6 / 3;
        memcpy(full.k + n * 4, s.k + from * 4, 4 * sizeof(float));
        memcpy(full.v + n * 3, s.v + from * 3, 3 * sizeof(float));
    }
    sample_forward(&full.a, other_o, other_lse);
    assert_near(o, other_o, 2 * 6 * 3 * 3, 0);
    assert_near(lse, other_lse, 2 * 6 * 3, 0);
}

/* Sequences of 2, 0, 3 queries and 5, 3, 4 keys; dense problems one by one. */
static void test_oracle__packed_is_each_sequence_alone(void **state)
{
    (void)state;
    static const int32_t cu_q[] = {0, 2, 2, 5}, cu_k[] = {0, 5, 8, 12};
    sample_init(&s, 3, 2, 1, 3, 5, 4, 2);
    s.a.causal = 1;
    s.a.softcap = 3;
    s.a.cu_seqlens_q = cu_q;
    s.a.cu_seqlens_k = cu_k;
    s.a.total_q = 5;
    s.a.total_k = 12;
    sample_forward(&s.a, o, lse);
    for (int64_t b = 0; b < 3; b++) {
        struct anyflash_attend_args one = s.a;
        one.cu_seqlens_q = one.cu_seqlens_k = NULL;
        one.batch = 1;
        one.q_len = cu_q[b + 1] - cu_q[b];
        one.k_len = cu_k[b + 1] - cu_k[b];
        one.q.data = s.q + cu_q[b] * 2 * 4;
        one.k.data = s.k + cu_k[b] * 4;
        one.v.data = s.v + cu_k[b] * 2;
        sample_forward(&one, other_o, other_lse);
        for (int64_t h = 0; h < 2; h++) {
            assert_near(o + (b * 2 + h) * 3 * 2, other_o + h * one.q_len * 2, one.q_len * 2, 0);
            assert_near(lse + (b * 2 + h) * 3, other_lse + h * one.q_len, one.q_len, 0);
        }
    }
}

static void test_oracle__rows_past_used_queries_are_zero(void **state)
{
    (void)state;
    static const int32_t used[] = {1};
    sample_init(&s, 1, 1, 1, 2, 3, 2, 2);
    s.a.seqused_q = used;
    sample_forward(&s.a, o, lse);
    assert_true(o[0] != 0 && isfinite(lse[0]));
    assert_true(o[2] == 0 && o[3] == 0 && lse[1] == -INFINITY);
}

/* Pages of 3 rows in random order have the content of a dense cache. */
static void test_oracle__paged_is_dense(void **state)
{
    (void)state;
    static const int32_t table[] = {4, 0, 99, 2, 3, 1}, used[] = {5, 8};
    static float pages[2][5 * 2 * 3 * 4];
    sample_init(&s, 2, 4, 2, 3, 8, 4, 4);
    s.a.causal = 1;
    s.a.seqused_k = used;
    sample_forward(&s.a, other_o, other_lse);
    for (int64_t n = 0; n < 2 * 8 * 2; n++) { /* row n: batch, key, head */
        int64_t b = n / 16, j = n / 2 % 8, g = n % 2;
        if (j >= used[b])
            continue;
        int64_t row = (table[b * 3 + j / 3] * 2 + g) * 3 + j % 3;
        memcpy(&pages[0][row * 4], s.k + n * 4, 4 * sizeof(float));
        memcpy(&pages[1][row * 4], s.v + n * 4, 4 * sizeof(float));
    }
    s.a.k = anyflash_bhsd(pages[0], ANYFLASH_F32, 2, 3, 4);
    s.a.v = anyflash_bhsd(pages[1], ANYFLASH_F32, 2, 3, 4);
    s.a.page_size = 3;
    s.a.page_count = 5;
    s.a.block_table = table;
    s.a.block_table_stride = 3;
    sample_forward(&s.a, o, lse);
    assert_near(o, other_o, 2 * 4 * 3 * 4, 0);
    assert_near(lse, other_lse, 2 * 4 * 3, 0);
}

static void test_oracle__cache_batches_are_chosen(void **state)
{
    (void)state;
    static const int32_t idx[] = {2, 0};
    sample_init(&s, 2, 1, 1, 2, 3, 4, 2);
    s.a.cache_batch_idx = idx;
    s.a.cache_batch = 3;
    sample_forward(&s.a, o, lse);
    s.a.cache_batch_idx = NULL;
    s.a.batch = 1;
    s.a.k.data = s.k + 2 * 3 * 4;
    s.a.v.data = s.v + 2 * 3 * 2;
    sample_forward(&s.a, other_o, other_lse);
    assert_near(o, other_o, 4, 0);
}

static void test_oracle__reads_half_precision(void **state)
{
    (void)state;
    static uint16_t half[3][SAMPLE_MAX];
    for (int32_t dtype = ANYFLASH_F16; dtype <= ANYFLASH_BF16; dtype++) {
        sample_init(&s, 1, 2, 1, 2, 3, 4, 2);
        float *const floats[] = {s.q, s.k, s.v};
        for (int t = 0; t < 3; t++) {
            for (int64_t n = 0; n < 64; n++) {
                af_convert_store(dtype, half[t], n, floats[t][n]);
                floats[t][n] = af_convert_load(dtype, half[t], n);
            }
        }
        sample_forward(&s.a, other_o, other_lse);
        s.a.q.data = half[0];
        s.a.k.data = half[1];
        s.a.v.data = half[2];
        s.a.q.dtype = s.a.k.dtype = s.a.v.dtype = dtype;
        sample_forward(&s.a, o, lse);
        assert_near(o, other_o, 2 * 2 * 2, 0);
        assert_near(lse, other_lse, 2 * 2, 0);
    }
}

static void test_oracle__says_when_memory_is_short(void **state)
{
    (void)state;
    sample_init(&s, 1, 1, 1, 2, 3, 2, 2);
    struct af_problem problem = sample_problem(&s.a);
    struct anyflash_tensor dout = sample_dout(&s);
    struct af_gradients none = {0};
    af_mem_fail_nth(1, true);
    assert_int_equal(af_reference_forward(&problem, o, lse, NULL), ANYFLASH_E_NO_MEMORY);
    assert_int_equal(af_reference_backward(&problem, &dout, NULL, &none, NULL),
                     ANYFLASH_E_NO_MEMORY);
    af_mem_fail_nth(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle__softmax_of_two_keys),
        cmocka_unit_test(test_oracle__scale_defaults_to_root_of_head_dim),
        cmocka_unit_test(test_oracle__softcap),
        cmocka_unit_test(test_oracle__bias_comes_after_softcap),
        cmocka_unit_test(test_oracle__alibi_counts_from_the_diagonal),
        cmocka_unit_test(test_oracle__sink_takes_weight_and_gives_no_value),
        cmocka_unit_test(test_oracle__only_a_sink),
        cmocka_unit_test(test_oracle__no_key_gives_zero_and_minus_infinity),
        cmocka_unit_test(test_oracle__scores_of_minus_infinity_count_as_masked),
        cmocka_unit_test(test_oracle__nan_and_infinity_reach_the_rows_that_see_them),
        cmocka_unit_test(test_oracle__hidden_keys_are_not_looked_at),
        cmocka_unit_test(test_oracle__dropout_keeps_by_philox_and_rescales),
        cmocka_unit_test(test_visibility__as_drawn),
        cmocka_unit_test(test_visibility__mask_takes_keys_out),
        cmocka_unit_test(test_oracle__shared_key_heads_are_repeated_heads),
        cmocka_unit_test(test_oracle__packed_is_each_sequence_alone),
        cmocka_unit_test(test_oracle__rows_past_used_queries_are_zero),
        cmocka_unit_test(test_oracle__paged_is_dense),
        cmocka_unit_test(test_oracle__cache_batches_are_chosen),
        cmocka_unit_test(test_oracle__reads_half_precision),
        cmocka_unit_test(test_oracle__says_when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
