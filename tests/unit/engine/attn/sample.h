/*
 * sample.h: small attention problems with random numbers, for tests. Storage
 * is static and large enough for B * rows * heads * D up to SAMPLE_MAX.
 */
#ifndef AF_TEST_SAMPLE_H
#define AF_TEST_SAMPLE_H

#include <math.h>
#include <string.h>

#include "engine/attn/convert.h"
#include "tests/oracle/reference.h"

#define SAMPLE_MAX 4096

struct sample {
    struct anyflash_attend_args a;
    float q[SAMPLE_MAX], k[SAMPLE_MAX], v[SAMPLE_MAX], o[SAMPLE_MAX], lse[SAMPLE_MAX];
    float bias[SAMPLE_MAX], dout[SAMPLE_MAX], dlse[SAMPLE_MAX], sinks[64], slopes[64];
    unsigned char mask[SAMPLE_MAX];
    uint64_t seed;
};

/* A number in [-1, 1) with 10 bits after the point: sums with small powers of 2 are exact. */
static inline float sample_number(struct sample *sample)
{
    uint64_t x = sample->seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)(int64_t)((x ^ x >> 31) % 2048) / 1024 - 1;
}

static inline void sample_fill(struct sample *sample, float *numbers, size_t count)
{
    for (size_t n = 0; n < count; n++)
        numbers[n] = sample_number(sample);
}

/* Contiguous [B, S, H, D] tensors in f32, random; options unset. */
static inline void sample_init(struct sample *s, int64_t batch, int64_t heads, int64_t kv_heads,
                               int64_t q_len, int64_t k_len, int64_t head_dim,
                               int64_t value_dim)
{
    memset(s, 0, sizeof *s);
    s->seed = 1;
    s->a = anyflash_attend_args_init();
    s->a.batch = batch;
    s->a.heads = heads;
    s->a.kv_heads = kv_heads;
    s->a.q_len = q_len;
    s->a.k_len = k_len;
    s->a.head_dim = head_dim;
    s->a.value_dim = value_dim;
    s->a.q = anyflash_bshd(s->q, ANYFLASH_F32, heads, q_len, head_dim);
    s->a.k = anyflash_bshd(s->k, ANYFLASH_F32, kv_heads, k_len, head_dim);
    s->a.v = anyflash_bshd(s->v, ANYFLASH_F32, kv_heads, k_len, value_dim);
    s->a.o = anyflash_bshd(s->o, ANYFLASH_F32, heads, q_len, value_dim);
    s->a.lse = s->lse;
    s->a.lse_batch_stride = q_len;
    s->a.lse_head_stride = batch * q_len;
    sample_fill(s, s->q, SAMPLE_MAX);
    sample_fill(s, s->k, SAMPLE_MAX);
    sample_fill(s, s->v, SAMPLE_MAX);
    sample_fill(s, s->bias, SAMPLE_MAX);
    sample_fill(s, s->dout, SAMPLE_MAX);
    sample_fill(s, s->dlse, SAMPLE_MAX);
    sample_fill(s, s->sinks, AF_COUNT(s->sinks));
    for (size_t n = 0; n < AF_COUNT(s->slopes); n++)
        s->slopes[n] = 0.25f / (float)(n + 1);
    for (size_t n = 0; n < SAMPLE_MAX; n++)
        s->mask[n] = sample_number(s) > -0.5f;
}

static inline void sample_use_bias(struct sample *s)
{
    s->a.bias = anyflash_bhsd(s->bias, ANYFLASH_F32, s->a.heads, s->a.q_len, s->a.k_len);
}

static inline void sample_use_mask(struct sample *s)
{
    s->a.mask = anyflash_bhsd(s->mask, ANYFLASH_BOOL, s->a.heads, s->a.q_len, s->a.k_len);
}

/* dout laid out as o. */
static inline struct anyflash_tensor sample_dout(struct sample *s)
{
    struct anyflash_tensor dout = s->a.o;
    dout.data = s->dout;
    return dout;
}

/* The checked problem; fails the test with the message if it is rejected. */
static inline struct af_problem sample_problem(const struct anyflash_attend_args *a)
{
    struct anyflash_error err = {0};
    struct af_problem problem;
    if (af_problem_init(&problem, a, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    return problem;
}

/* o [B, H, Sq, Dv] and lse [B, H, Sq] by the oracle. */
static inline void sample_forward(const struct anyflash_attend_args *a, double *o, double *lse)
{
    struct af_problem problem = sample_problem(a);
    assert_int_equal(af_reference_forward(&problem, o, lse, NULL), ANYFLASH_OK);
}

/* Fails unless |got - want| <= bound for all; infinities of a sign and NaNs are equal. */
static inline void assert_near(const double *got, const double *want, int64_t count,
                               double bound)
{
    for (int64_t n = 0; n < count; n++) {
        bool same = got[n] == want[n] || (isnan(got[n]) && isnan(want[n]));
        if (!same && !(fabs(got[n] - want[n]) <= bound))
            fail_msg("element %lld is %.17g, not %.17g", (long long)n, got[n], want[n]);
    }
}

#endif
