/*
 * test_problem.c: which arguments are rejected, with which message, which are
 * accepted, and what a problem says about its sequences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/attn/mask.h"

#include <math.h>
#include <string.h>

enum { B = 2, H = 4, G = 2, SQ = 3, SK = 8, D = 4 };

static float q[B * H * SQ * D], o[B * H * SQ * D], lse[B * H * SQ * D];
static float k[B * G * SK * D], v[B * G * SK * D], k_new[B * G * 2 * D], v_new[B * G * 2 * D];
static float bias[B * H * SQ * SK], slopes[B * H], turns[2][16 * D / 2];
static unsigned char mask[B * H * SQ * SK];

/* Copies of a few numbers that stay valid until the next test. */
static int32_t pool[256];
static size_t pool_used;

static const void *copied(const void *numbers, size_t size_bytes)
{
    int32_t *copy = pool + pool_used;
    pool_used += size_bytes / sizeof *copy;
    assert_true(pool_used <= AF_COUNT(pool));
    return memcpy(copy, numbers, size_bytes);
}

#define INTS(...)                                                                              \
    (const int32_t *)copied((const int32_t[]){__VA_ARGS__},                                    \
                            sizeof((const int32_t[]){__VA_ARGS__}))
#define FLOATS(...)                                                                            \
    (const float *)copied((const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}))

static struct anyflash_attend_args good(void)
{
    struct anyflash_attend_args a = ANYFLASH_ATTEND_ARGS_INIT;
    pool_used = 0;
    a.batch = B;
    a.heads = H;
    a.kv_heads = G;
    a.q_len = SQ;
    a.k_len = SK;
    a.head_dim = a.value_dim = D;
    a.q = anyflash_bshd(q, ANYFLASH_F32, H, SQ, D);
    a.k = anyflash_bshd(k, ANYFLASH_F32, G, SK, D);
    a.v = anyflash_bshd(v, ANYFLASH_F32, G, SK, D);
    a.o = anyflash_bshd(o, ANYFLASH_F32, H, SQ, D);
    a.lse = lse;
    a.lse_batch_stride = SQ;
    a.lse_head_stride = B * SQ;
    return a;
}

static void set_bias(struct anyflash_attend_args *a)
{
    a->bias = anyflash_bhsd(bias, ANYFLASH_F32, H, SQ, SK);
}

static void set_mask(struct anyflash_attend_args *a)
{
    a->mask = anyflash_bhsd(mask, ANYFLASH_BOOL, H, SQ, SK);
}

static void set_pages(struct anyflash_attend_args *a)
{
    a->k = anyflash_bhsd(k, ANYFLASH_F32, G, 4, D);
    a->v = anyflash_bhsd(v, ANYFLASH_F32, G, 4, D);
    a->page_size = 4;
    a->page_count = 4;
    a->block_table = INTS(3, 0, 2, 1);
    a->block_table_stride = 2;
}

static void set_f8(struct anyflash_attend_args *a)
{
    a->k.dtype = a->v.dtype = ANYFLASH_F8_E4M3;
}

static void set_append(struct anyflash_attend_args *a)
{
    a->k_new = anyflash_bhsd(k_new, ANYFLASH_F32, G, 2, D);
    a->v_new = anyflash_bhsd(v_new, ANYFLASH_F32, G, 2, D);
    a->new_len = 2;
    a->seqused_k = INTS(4, 6);
}

static void set_rotary(struct anyflash_attend_args *a)
{
    a->rotary_cos = turns[0];
    a->rotary_sin = turns[1];
    a->rotary_rows = 16;
    a->rotary_dim = D;
}

#define REFUSAL(name, text, ...)                                                               \
    static void spoil_##name(struct anyflash_attend_args *a)                                   \
    {                                                                                          \
        __VA_ARGS__;                                                                           \
    }
#include "refusals.inc"
#undef REFUSAL

#define REFUSAL(name, text, ...) {#name, text, spoil_##name},
static const struct refusal {
    const char *name;
    const char *text;
    void (*spoil)(struct anyflash_attend_args *a);
} refusals[] = {
#include "refusals.inc"
};
#undef REFUSAL

static void test_problem__refuses_with_name_and_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(refusals); i++) {
        struct anyflash_attend_args a = good();
        struct anyflash_error err = {0};
        struct af_problem problem, untouched;
        union { /* a struct_size that is too large reads zeros */
            struct anyflash_attend_args a;
            unsigned char bytes[5000];
        } longer = {.bytes = {0}};
        memset(&problem, 0x5a, sizeof problem);
        memset(&untouched, 0x5a, sizeof untouched);
        refusals[i].spoil(&a);
        longer.a = a;
        enum anyflash_status status = af_problem_init(&problem, &longer.a, &err);
        if (status != ANYFLASH_E_ARGUMENT || strstr(err.message, refusals[i].text) == NULL)
            fail_msg("%s: status %d, '%s' lacks '%s'", refusals[i].name, (int)status,
                     err.message, refusals[i].text);
        assert_int_equal(err.status, status);
        assert_memory_equal(&problem, &untouched, sizeof problem);
        assert_int_equal(af_problem_init(&problem, &longer.a, NULL), status);
    }
}

static struct af_problem accepted(const struct anyflash_attend_args *a)
{
    struct anyflash_error err = {0};
    struct af_problem problem;
    if (af_problem_init(&problem, a, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    return problem;
}

static void test_problem__refuses_null(void **state)
{
    (void)state;
    struct af_problem problem;
    assert_int_equal(af_problem_init(&problem, NULL, NULL), ANYFLASH_E_ARGUMENT);
}

static void test_problem__takes_a_longer_struct_whose_tail_is_zero(void **state)
{
    (void)state;
    struct {
        struct anyflash_attend_args a;
        unsigned char tail[64];
    } newer;
    struct anyflash_error err = {0};
    struct af_problem problem;
    memset(&newer, 0, sizeof newer);
    newer.a = good();
    newer.a.struct_size = sizeof newer;
    accepted(&newer.a);
    newer.tail[63] = 1;
    assert_int_equal(af_problem_init(&problem, &newer.a, &err), ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "this library is older than the header"));
}

static void test_problem__resolves_defaults(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    struct af_problem plain = accepted(&a);
    assert_true(plain.a.scale == 0.5f);
    assert_false(plain.changes_scores);
    assert_int_equal(plain.group, 2);
    assert_int_equal(plain.element_bytes, 4);
    a.causal = 1;
    a.sinks = slopes;
    a.dropout = 0.5f;
    assert_false(accepted(&a).changes_scores);
    a.scale = 0;
    set_mask(&a);
    struct af_problem other = accepted(&a);
    assert_true(other.changes_scores);
    assert_true(other.a.scale == 0);
}

/* A window of any size is a window: with one, queries have rotary positions of their own. */
static void test_problem__bounds_windows_and_keeps_them(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    a.window_left = a.window_right = INT64_MAX;
    struct af_problem problem = accepted(&a);
    struct af_sequence s = af_problem_sequence(&problem, 0);
    assert_true(problem.a.window_left > 0 && problem.a.window_right > 0);
    for (int64_t i = 0; i < a.q_len; i++) {
        struct af_range seen = af_visible_range(&problem, &s, i);
        assert_true(seen.first == 0 && seen.end == a.k_len);
    }
}

static void test_problem__refuses_a_scale_that_is_none(void **state)
{
    (void)state;
    static const float scales[] = {NAN, INFINITY, -INFINITY, 2e38f, -3e38f};
    for (size_t n = 0; n < AF_COUNT(scales); n++) {
        struct anyflash_attend_args a = good();
        struct af_problem problem;
        struct anyflash_error err = {0};
        a.scale = scales[n];
        assert_int_equal(af_problem_init(&problem, &a, &err), ANYFLASH_E_ARGUMENT);
        assert_non_null(strstr(err.message, "scale is"));
    }
}

static void test_problem__takes_empty_tensors_without_data(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    a.batch = 0;
    a.q.data = a.k.data = a.v.data = a.o.data = NULL;
    accepted(&a);
    a = good();
    a.k_len = 0;
    a.k.data = a.v.data = NULL;
    accepted(&a);
    a = good();
    a.q_len = 0;
    a.q.data = a.o.data = NULL;
    accepted(&a);
}

static void test_problem__takes_broadcast_and_backward_inputs(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    a.q.batch_stride = a.k.head_stride = a.v.row_stride = 0;
    a.k.data = k + (SK - 1) * G * D;
    a.k.row_stride = -G * D;
    set_bias(&a);
    a.bias.batch_stride = a.bias.head_stride = a.bias.row_stride = 0;
    a.o.dtype = ANYFLASH_F32;
    accepted(&a);
}

static void test_problem__takes_keys_and_values_interleaved_in_one_cache(void **state)
{
    (void)state;
    static float cache[B * SK * 2 * G * D]; /* [B, Sk, 2, G, D] */
    struct anyflash_attend_args a = good();
    a.k = anyflash_bshd(cache, ANYFLASH_F32, G, SK, D);
    a.k.batch_stride *= 2;
    a.k.row_stride *= 2;
    a.v = a.k;
    a.v.data = cache + G * D;
    set_append(&a);
    accepted(&a);
    struct anyflash_error err = {0};
    struct af_problem problem;
    a.v.data = cache + G * D - 1; /* one float of each row is k's too */
    assert_int_equal(af_problem_init(&problem, &a, &err), ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "overlaps v at"));
}

static void test_problem__checks_no_page_past_the_used_keys(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    set_pages(&a);
    a.block_table = INTS(0, -1, 3, 99);
    a.seqused_k = INTS(4, 0);
    accepted(&a);
}

static void test_problem__takes_pages_that_sequences_share_for_reading(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    set_pages(&a);
    set_append(&a);
    a.block_table = INTS(0, 1, 0, 2);
    a.seqused_k = INTS(5, 4);
    accepted(&a);
}

/* Pages 0 and 32768 share a bit of the filter that finds pages appended to twice. */
static void test_problem__takes_many_pages(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    set_pages(&a);
    set_append(&a);
    a.page_count = 40000;
    a.k.data = (void *)(uintptr_t)0x10000000; /* never read */
    a.v.data = (void *)(uintptr_t)0x20000000;
    a.block_table = INTS(0, 1, 32768, 2);
    a.seqused_k = INTS(1, 1);
    accepted(&a);
}

static void test_sequence__plain(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    struct af_problem problem = accepted(&a);
    struct af_sequence s = af_problem_sequence(&problem, 1);
    assert_int_equal(s.q_count, 3);
    assert_int_equal(s.k_count, 8);
    assert_int_equal(s.offset, 5);
    assert_int_equal(s.cache, 1);
}

static void test_sequence__packed(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    a.cu_seqlens_q = INTS(1, 3, 6);
    a.cu_seqlens_k = INTS(0, 8, 13);
    a.seqused_q = INTS(2, 1);
    a.seqused_k = INTS(8, 4);
    a.leftpad_k = INTS(0, 2);
    a.total_q = 6;
    a.total_k = 16;
    struct af_problem problem = accepted(&a);
    struct af_sequence s = af_problem_sequence(&problem, 1);
    assert_int_equal(s.q_row, 3);
    assert_int_equal(s.q_count, 1);
    assert_int_equal(s.q_full, 3);
    assert_int_equal(s.k_row, 8);
    assert_int_equal(s.k_first, 2);
    assert_int_equal(s.k_count, 4);
    assert_int_equal(s.offset, 3);
    assert_ptr_equal(af_row_of_query(&problem.a.q, 4, &s, 2, 0), &q[(3 * H + 2) * D]);
    assert_ptr_equal(af_row_of_key(&problem, &problem.a.k, &s, 1, 3), &k[(11 * G + 1) * D]);
    assert_ptr_equal(af_lse_at(&problem, &s, 2, 0), &lse[2 * B * SQ + 3]);
}

static void test_sequence__paged_append_with_offsets(void **state)
{
    (void)state;
    struct anyflash_attend_args a = good();
    set_pages(&a);
    set_append(&a);
    a.align = ANYFLASH_ALIGN_OFFSETS;
    a.causal_offsets = INTS(-4, INT32_MAX);
    struct af_problem problem = accepted(&a);
    struct af_sequence s = af_problem_sequence(&problem, 0);
    assert_int_equal(s.k_count, 6);
    assert_int_equal(s.offset, -4);
    assert_ptr_equal(af_row_of_key(&problem, &problem.a.k, &s, 1, 5),
                     &k[(0 * G + 1) * 4 * D + D]);
    assert_ptr_equal(af_row_of_key(&problem, &problem.a.k, &s, 0, 3),
                     &k[3 * G * 4 * D + 3 * D]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problem__refuses_with_name_and_value),
        cmocka_unit_test(test_problem__refuses_null),
        cmocka_unit_test(test_problem__takes_a_longer_struct_whose_tail_is_zero),
        cmocka_unit_test(test_problem__resolves_defaults),
        cmocka_unit_test(test_problem__bounds_windows_and_keeps_them),
        cmocka_unit_test(test_problem__refuses_a_scale_that_is_none),
        cmocka_unit_test(test_problem__takes_empty_tensors_without_data),
        cmocka_unit_test(test_problem__takes_broadcast_and_backward_inputs),
        cmocka_unit_test(test_problem__takes_keys_and_values_interleaved_in_one_cache),
        cmocka_unit_test(test_problem__checks_no_page_past_the_used_keys),
        cmocka_unit_test(test_problem__takes_pages_that_sequences_share_for_reading),
        cmocka_unit_test(test_problem__takes_many_pages),
        cmocka_unit_test(test_sequence__plain),
        cmocka_unit_test(test_sequence__packed),
        cmocka_unit_test(test_sequence__paged_append_with_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
