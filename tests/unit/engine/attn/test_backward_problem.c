/*
 * test_backward_problem.c: which arguments of the backward are rejected, with
 * which message, and which layouts of gradients are accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#include "engine/attn/problem.h"

enum { B = 2, H = 4, G = 2, SQ = 3, SK = 5, D = 4, DV = 2 };

static struct sample s;
static struct anyflash_attend_backward_args args;
static float dq[SAMPLE_MAX], dk[SAMPLE_MAX], dv[SAMPLE_MAX], dbias[SAMPLE_MAX], dsinks[H];
static float page_rows[SAMPLE_MAX];
static const int32_t zeros[B * SK];

static void start(void)
{
    sample_init(&s, B, H, G, SQ, SK, D, DV);
    sample_use_bias(&s);
    s.a.sinks = s.sinks;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.forward = &s.a;
    args.dout = sample_dout(&s);
    args.dq = anyflash_bshd(dq, ANYFLASH_F32, H, SQ, D);
    args.dk = anyflash_bshd(dk, ANYFLASH_F32, G, SK, D);
    args.dv = anyflash_bshd(dv, ANYFLASH_F32, G, SK, DV);
    args.dbias = anyflash_bhsd(dbias, ANYFLASH_F32, H, SQ, SK);
    args.dsinks = dsinks;
    args.dlse = s.dlse;
}

static void expect_accepted(void)
{
    struct anyflash_error err = {0};
    struct af_backward_problem problem;
    if (af_backward_problem_init(&problem, &args, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
}

static void use_pages(void)
{
    s.a.block_table = zeros;
    s.a.block_table_stride = SK;
    s.a.page_size = 1;
    s.a.page_count = 1;
}

static void use_append(void)
{
    s.a.seqused_k = zeros;
    s.a.new_len = 1;
    s.a.k_new = anyflash_bshd(page_rows, ANYFLASH_F32, G, 1, D);
    s.a.v_new = anyflash_bshd(page_rows, ANYFLASH_F32, G, 1, DV);
}

static void use_cache_batch(void)
{
    s.a.cache_batch_idx = zeros;
    s.a.cache_batch = B;
}

/* name, part of the message, how it changes valid arguments */
#define REFUSALS(REFUSAL)                                                                      \
    REFUSAL(struct_size, "struct_size is 8", args.struct_size = 8)                             \
    REFUSAL(forward_absent, "forward is NULL", args.forward = NULL)                            \
    REFUSAL(forward_wrong, "head_dim is 0", s.a.head_dim = 0)                                  \
    REFUSAL(pages, "block_table is set; caches have no backward", use_pages())                 \
    REFUSAL(append, "new_len is set; caches have no backward", use_append())                   \
    REFUSAL(cache_batch, "cache_batch_idx is set; caches have", use_cache_batch())             \
    REFUSAL(lse_absent, "forward->lse is NULL", s.a.lse = NULL)                                \
    REFUSAL(dout_absent, "dout.data is NULL", args.dout.data = NULL)                           \
    REFUSAL(dout_type, "dout.dtype is 3; it must be f32", args.dout.dtype = ANYFLASH_BF16)     \
    REFUSAL(dq_absent, "dq is NULL; dq, dk and dv", args.dq.data = NULL)                       \
    REFUSAL(dk_absent, "dk is NULL; dq, dk and dv", args.dk.data = NULL)                       \
    REFUSAL(dv_absent, "dv is NULL; dq, dk and dv", args.dv.data = NULL)                       \
    REFUSAL(dk_type, "dk.dtype is 2; it must be f32 (1)", args.dk.dtype = ANYFLASH_F16)        \
    REFUSAL(dbias_type, "dbias.dtype is 2; it must be f32", args.dbias.dtype = ANYFLASH_F16)   \
    REFUSAL(dbias_of_none, "dbias is set; the forward has no bias", s.a.bias.data = NULL)      \
    REFUSAL(dsinks_of_none, "dsinks is set; the forward has no sinks", s.a.sinks = NULL)       \
    REFUSAL(dbias_summed, "dbias.head_stride is 0; bias is not broadcast there",               \
            args.dbias.head_stride = 0)                                                        \
    REFUSAL(dq_unaligned, "dq is at address", args.dq.data = (char *)dq + 1)                   \
    REFUSAL(dq_stride, "dq.row_stride is", args.dq.row_stride = INT64_MAX)                     \
    REFUSAL(dk_shared, "dk overlaps itself", args.dk.head_stride = 0)                          \
    REFUSAL(dq_is_q, "dq at 0x", args.dq.data = s.q)                                           \
    REFUSAL(dq_is_o, "overlaps o at", args.dq.data = s.o)                                      \
    REFUSAL(dk_is_dv, "overlaps dv at", args.dv.data = dk)                                     \
    REFUSAL(dv_is_dout, "overlaps dout at", args.dv.data = s.dout)                             \
    REFUSAL(dsinks_is_sinks, "overlaps sinks at", args.dsinks = s.sinks)                       \
    REFUSAL(dbias_is_lse, "overlaps lse at", args.dbias.data = s.lse)

#define REFUSAL(name, text, spoiling)                                                          \
    static void spoil_##name(void)                                                             \
    {                                                                                          \
        spoiling;                                                                              \
    }
REFUSALS(REFUSAL)
#undef REFUSAL

#define REFUSAL(name, text, spoiling) {#name, text, spoil_##name},
static const struct {
    const char *name;
    const char *text;
    void (*spoil)(void);
} refusals[] = {REFUSALS(REFUSAL)};
#undef REFUSAL

static void test_backward__refuses_with_name_and_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(refusals); i++) {
        struct anyflash_error err = {0};
        struct af_backward_problem problem, untouched;
        memset(&problem, 0x5a, sizeof problem);
        memset(&untouched, 0x5a, sizeof untouched);
        start();
        refusals[i].spoil();
        enum anyflash_status status = af_backward_problem_init(&problem, &args, &err);
        bool cache = strstr(refusals[i].text, "caches have") != NULL;
        if (status != (cache ? ANYFLASH_E_UNSUPPORTED : ANYFLASH_E_ARGUMENT) ||
            strstr(err.message, refusals[i].text) == NULL)
            fail_msg("%s: status %d, '%s' lacks '%s'", refusals[i].name, (int)status,
                     err.message, refusals[i].text);
        assert_memory_equal(&problem, &untouched, sizeof problem);
    }
}

static void test_backward__takes_what_is_right(void **state)
{
    (void)state;
    start();
    expect_accepted();
    args.dq.data = args.dk.data = args.dv.data = NULL; /* only what remains is wanted */
    expect_accepted();
    args.dbias.data = NULL;
    args.dsinks = NULL;
    args.dlse = NULL;
    expect_accepted();
}

static void test_backward__takes_gradients_interleaved_in_one_buffer(void **state)
{
    (void)state;
    static float dqkv[B * SQ * (H + 2 * G) * D]; /* [B, S, H + 2 G, D] */
    sample_init(&s, B, H, G, SQ, SQ, D, D);
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.forward = &s.a;
    args.dout = sample_dout(&s);
    args.dq = args.dk = args.dv = anyflash_bshd(dqkv, ANYFLASH_F32, H + 2 * G, SQ, D);
    args.dk.data = dqkv + H * D;
    args.dv.data = dqkv + (H + G) * D;
    expect_accepted();
}

static void test_backward__takes_a_bias_gradient_summed_over_broadcast(void **state)
{
    (void)state;
    start();
    s.a.bias.batch_stride = s.a.bias.head_stride = 0;
    args.dbias.batch_stride = args.dbias.head_stride = 0;
    expect_accepted();
}

static void test_backward__packed_tensors_need_no_batch_stride(void **state)
{
    (void)state;
    static const int32_t cu_q[] = {0, 2, 5}, cu_k[] = {0, 5, 8};
    start();
    s.a.cu_seqlens_q = cu_q;
    s.a.cu_seqlens_k = cu_k;
    s.a.total_q = 6;
    s.a.total_k = 10;
    args.dq.batch_stride = args.dv.batch_stride = INT64_MAX;
    struct af_backward_problem problem;
    assert_int_equal(af_backward_problem_init(&problem, &args, NULL), ANYFLASH_OK);
    assert_int_equal(problem.dout.batch_stride, 0);
    assert_int_equal(problem.dq.batch_stride, 0);
    assert_int_equal(problem.dk.batch_stride, 0);
    assert_int_equal(problem.dv.batch_stride, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__refuses_with_name_and_value),
        cmocka_unit_test(test_backward__takes_what_is_right),
        cmocka_unit_test(test_backward__takes_gradients_interleaved_in_one_buffer),
        cmocka_unit_test(test_backward__takes_a_bias_gradient_summed_over_broadcast),
        cmocka_unit_test(test_backward__packed_tensors_need_no_batch_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
