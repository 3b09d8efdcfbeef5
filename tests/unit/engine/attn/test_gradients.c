/*
 * test_gradients.c: compares the oracle's gradients with finite differences of
 * its forward, for each feature alone and for all together. Inputs are
 * multiples of 2^-10 and the step is 2^-7, so that shifted inputs are exact
 * floats. The five-point rule leaves an error of the order of step^4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#define STEP 0x1p-7
#define BOUND 2e-6

static struct sample s;
static double o[SAMPLE_MAX], lse[SAMPLE_MAX];
static double dq[SAMPLE_MAX], dk[SAMPLE_MAX], dv[SAMPLE_MAX], dbias[SAMPLE_MAX], dsinks[64];
static bool with_dlse;

/* sum(o * dout) + sum(lse * dlse), the function that is differentiated. */
static double loss(void)
{
    const struct anyflash_attend_args *a = &s.a;
    struct af_problem problem = sample_problem(a);
    assert_int_equal(af_reference_forward(&problem, o, lse, NULL), ANYFLASH_OK);
    struct anyflash_tensor dout = sample_dout(&s);
    double sum = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(&problem, b);
        if (a->cu_seqlens_q != NULL)
            dout.batch_stride = 0;
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < sequence.q_count; i++) {
                int64_t at = (b * a->heads + h) * a->q_len + i;
                const float *row =
                    (const float *)(void *)af_row_of_query(&dout, 4, &sequence, h, i);
                for (int64_t d = 0; d < a->value_dim; d++)
                    sum += o[at * a->value_dim + d] * (double)row[d];
                if (with_dlse && isfinite(lse[at]))
                    sum +=
                        lse[at] * (double)s.dlse[af_lse_at(&problem, &sequence, h, i) - s.lse];
            }
        }
    }
    return sum;
}

static double slope_of(float *number)
{
    static const double weight[] = {1, -8, 0, 8, -1};
    float at = *number;
    double sum = 0;
    for (int n = -2; n <= 2; n++) {
        *number = at + (float)(n * STEP);
        sum += weight[n + 2] == 0 ? 0 : weight[n + 2] * loss();
    }
    *number = at;
    return sum / (12 * STEP);
}

static void expect_slopes(const char *what, const char *name, float *numbers, const double *got,
                          int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        double want = slope_of(&numbers[n]);
        if (!(fabs(got[n] - want) <= BOUND))
            fail_msg("%s: %s[%lld] is %.12g, the difference says %.12g", what, name,
                     (long long)n, got[n], want);
    }
}

/* s.q is [B, S, H, D] and the gradient [B, H, S, D]; both are read in s.q's order. */
static void expect_tensor(const char *what, const char *name, float *numbers,
                          const double *gradient, int64_t batch, int64_t heads, int64_t rows,
                          int64_t dim)
{
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < rows; i++)
                expect_slopes(what, name, numbers + ((b * rows + i) * heads + h) * dim,
                              gradient + ((b * heads + h) * rows + i) * dim, dim);
        }
    }
}

static void run_backward(void)
{
    struct af_problem problem = sample_problem(&s.a);
    struct anyflash_tensor dout = sample_dout(&s);
    struct af_gradients gradients = {dq, dk, dv, dbias, dsinks};
    assert_int_equal(
        af_reference_backward(&problem, &dout, with_dlse ? s.dlse : NULL, &gradients, NULL),
        ANYFLASH_OK);
}

static void expect_gradients(const char *what)
{
    const struct anyflash_attend_args *a = &s.a;
    run_backward();
    expect_tensor(what, "dq", s.q, dq, a->batch, a->heads, a->q_len, a->head_dim);
    expect_tensor(what, "dk", s.k, dk, a->batch, a->kv_heads, a->k_len, a->head_dim);
    expect_tensor(what, "dv", s.v, dv, a->batch, a->kv_heads, a->k_len, a->value_dim);
    if (a->bias.data != NULL)
        expect_slopes(what, "dbias", s.bias, dbias, a->batch * a->heads * a->q_len * a->k_len);
    if (a->sinks != NULL)
        expect_slopes(what, "dsinks", s.sinks, dsinks, a->heads);
}

static void use_softcap(void)
{
    s.a.softcap = 1.5f;
}

static void use_alibi(void)
{
    s.a.alibi_slopes = s.slopes;
    s.a.alibi_batch_stride = 0;
}

static void use_bias(void)
{
    sample_use_bias(&s);
}

static void use_mask(void)
{
    sample_use_mask(&s);
}

static void use_sinks(void)
{
    s.a.sinks = s.sinks;
}

static void use_dropout(void)
{
    s.a.dropout = 0.4f;
    s.a.dropout_seed = 3;
    s.a.dropout_offset = (uint64_t)5 << 32;
}

static void use_dlse(void)
{
    with_dlse = true;
}

static void use_causal(void)
{
    s.a.causal = 1;
}

static void use_window(void)
{
    s.a.window_left = 1;
    s.a.window_right = 0;
}

static void use_top_left(void)
{
    s.a.causal = 1;
    s.a.align = ANYFLASH_ALIGN_TOP_LEFT;
}

static void use_hidden_rows(void)
{
    static const int32_t offsets[] = {-2, -2};
    s.a.causal = 1;
    s.a.align = ANYFLASH_ALIGN_OFFSETS;
    s.a.causal_offsets = offsets;
}

static void use_lengths(void)
{
    static const int32_t used_q[] = {2, 3}, used_k[] = {4, 3}, leftpad[] = {1, 0};
    s.a.seqused_q = used_q;
    s.a.seqused_k = used_k;
    s.a.leftpad_k = leftpad;
}

static void use_nothing(void)
{
}

static void use_all(void)
{
    use_softcap();
    use_alibi();
    use_bias();
    use_mask();
    use_sinks();
    use_dropout();
    use_dlse();
    use_window();
    use_lengths();
}

static void test_gradients__are_the_slopes_of_the_forward(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*use)(void);
    } rows[] = {{"plain", use_nothing},     {"softcap", use_softcap},
                {"alibi", use_alibi},       {"bias", use_bias},
                {"mask", use_mask},         {"sinks", use_sinks},
                {"dropout", use_dropout},   {"dlse", use_dlse},
                {"causal", use_causal},     {"window", use_window},
                {"top left", use_top_left}, {"hidden rows", use_hidden_rows},
                {"lengths", use_lengths},   {"all", use_all}};
    for (size_t n = 0; n < AF_COUNT(rows); n++) {
        sample_init(&s, 2, 4, 2, 3, 4, 3, 2);
        with_dlse = false;
        rows[n].use();
        expect_gradients(rows[n].name);
    }
}

/* Packed rows: gradients of a packed tensor are those of its sequences. */
static void test_gradients__packed(void **state)
{
    (void)state;
    static const int32_t cu_q[] = {0, 1, 4}, cu_k[] = {0, 4, 6};
    sample_init(&s, 2, 2, 1, 3, 4, 3, 2);
    with_dlse = true;
    s.a.causal = 1;
    s.a.cu_seqlens_q = cu_q;
    s.a.cu_seqlens_k = cu_k;
    s.a.total_q = 4;
    s.a.total_k = 6;
    run_backward();
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t i = 0; i < cu_q[b + 1] - cu_q[b]; i++) {
            for (int64_t h = 0; h < 2; h++)
                expect_slopes("packed", "dq", s.q + ((cu_q[b] + i) * 2 + h) * 3,
                              dq + ((b * 2 + h) * 3 + i) * 3, 3);
        }
        for (int64_t j = 0; j < cu_k[b + 1] - cu_k[b]; j++) {
            expect_slopes("packed", "dk", s.k + (cu_k[b] + j) * 3, dk + (b * 4 + j) * 3, 3);
            expect_slopes("packed", "dv", s.v + (cu_k[b] + j) * 2, dv + (b * 4 + j) * 2, 2);
        }
    }
}

static void test_gradients__absent_ones_are_left_out(void **state)
{
    (void)state;
    sample_init(&s, 1, 2, 1, 3, 4, 3, 2);
    with_dlse = false;
    run_backward();
    struct af_problem problem = sample_problem(&s.a);
    struct anyflash_tensor dout = sample_dout(&s);
    static double only[SAMPLE_MAX];
    struct af_gradients gradients = {.dk = only};
    assert_int_equal(af_reference_backward(&problem, &dout, NULL, &gradients, NULL),
                     ANYFLASH_OK);
    assert_near(only, dk, 4 * 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients__are_the_slopes_of_the_forward),
        cmocka_unit_test(test_gradients__packed),
        cmocka_unit_test(test_gradients__absent_ones_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
