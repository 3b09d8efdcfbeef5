/*
 * backward_case.h: one random backward problem: its tensors between guard
 * pages, its gradients from the oracle, and the error of plain formulas in the
 * tensors' own type.
 *
 * The backward reads the oracle's o and lse, rounded, so forward kernels are not
 * involved.
 */
#ifndef AF_TEST_BACKWARD_CASE_H
#define AF_TEST_BACKWARD_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn/convert.h"
#include "engine/attn/mask.h"

#include "tests/oracle/dropout.h"
#include "tests/oracle/reference.h"
#include "tests/oracle/widened.h"

#include "guard.h"

enum { CASE_DQ, CASE_DK, CASE_DV, CASE_DBIAS, CASE_DSINKS, CASE_OUTPUTS };

struct backward_case {
    struct anyflash_attend_args a;
    struct anyflash_attend_backward_args args;
    uint64_t seed;
    int32_t dtype;
    int32_t cu_q[8], cu_k[8], used_q[8], used_k[8], leftpad[8], offsets[8];
    float slopes[64], sinks[64];
    struct guard guards[16];
    int guard_count;
    int64_t counts[CASE_OUTPUTS]; /* of the oracle's results */
    double *want[CASE_OUTPUTS];
    double *plain[CASE_OUTPUTS];  /* the plain formulas' results */
    double *stored[CASE_OUTPUTS]; /* the same when only o, lse and results are rounded */
    double *o, *lse;
};

static inline uint64_t case_word(struct backward_case *c)
{
    uint64_t x = c->seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* From low to high, both included. */
static inline int64_t case_pick(struct backward_case *c, int64_t low, int64_t high)
{
    return low + (int64_t)(case_word(c) % (uint64_t)(high - low + 1));
}

static inline bool case_one_in(struct backward_case *c, int64_t n)
{
    return case_pick(c, 1, n) == 1;
}

static inline float case_number(struct backward_case *c)
{
    return (float)(int64_t)(case_word(c) % 4096) / 1024 - 2;
}

static inline float case_round(int32_t dtype, double x)
{
    return dtype == ANYFLASH_F32   ? (float)x
           : dtype == ANYFLASH_F16 ? af_f32_of_f16(af_f16_of_f32((float)x))
                                   : af_f32_of_bf16(af_bf16_of_f32((float)x));
}

/* `count` random elements between guard pages, that live as long as the case. */
static inline void *case_elements(struct backward_case *c, int32_t dtype, int64_t count)
{
    struct guard *guard = &c->guards[c->guard_count++];
    *guard = guard_new((size_t)count * af_dtype_bytes(dtype), case_one_in(c, 2));
    char *memory = guard->bytes;
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ANYFLASH_BOOL)
            memory[i] = (char)(case_pick(c, 0, 3) > 0);
        else
            af_convert_store(dtype, memory, i, case_number(c));
    }
    return memory;
}

static inline struct anyflash_tensor case_tensor(struct backward_case *c, int32_t dtype,
                                                 int64_t batch, int64_t heads, int64_t rows,
                                                 int64_t dim, bool heads_first)
{
    void *data = case_elements(c, dtype, batch * heads * rows * dim);
    return heads_first ? anyflash_bhsd(data, dtype, heads, rows, dim)
                       : anyflash_bshd(data, dtype, heads, rows, dim);
}

/* All tensors for the sizes in c->a; packed when cu_seqlens are set. */
static inline void case_tensors(struct backward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    const bool packed = a->cu_seqlens_q != NULL, packed_k = a->cu_seqlens_k != NULL;
    const int64_t bq = packed ? 1 : a->batch, rows = packed ? a->total_q : a->q_len;
    const int64_t bk = packed_k ? 1 : a->batch, keys = packed_k ? a->total_k : a->k_len;
    const bool first = case_one_in(c, 2);
    const int32_t o_type = case_one_in(c, 2) ? ANYFLASH_F32 : c->dtype;
    a->q = case_tensor(c, c->dtype, bq, a->heads, rows, a->head_dim, first);
    a->k = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->head_dim, first);
    a->v = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->value_dim, first);
    a->o = case_tensor(c, o_type, bq, a->heads, rows, a->value_dim, first);
    a->lse = case_elements(c, ANYFLASH_F32, bq * a->heads * rows);
    a->lse_head_stride = rows;
    a->lse_batch_stride = a->heads * rows;
    c->args.forward = a;
    c->args.dout = case_tensor(c, o_type, bq, a->heads, rows, a->value_dim, first);
    c->args.dq = case_tensor(c, c->dtype, bq, a->heads, rows, a->head_dim, !first);
    c->args.dk = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->head_dim, !first);
    c->args.dv = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->value_dim, !first);
    if (case_one_in(c, 3))
        c->args.dlse = case_elements(c, ANYFLASH_F32, bq * a->heads * rows);
}

static inline struct af_problem case_problem(const struct backward_case *c)
{
    struct anyflash_error err = {0};
    struct af_problem problem;
    if (af_problem_init(&problem, &c->a, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    return problem;
}

/* Row i of sequence b in a result of the oracle with `rows` rows a sequence. */
static inline int64_t case_at(int64_t b, int64_t heads, int64_t h, int64_t rows, int64_t i)
{
    return (b * heads + h) * rows + i;
}

/* Writes the oracle's o and lse where the backward reads them. */
static inline void case_forward(struct backward_case *c)
{
    struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    const int64_t rows = a->batch * a->heads * a->q_len;
    c->o = calloc((size_t)(rows * a->value_dim + 1), sizeof *c->o);
    c->lse = calloc((size_t)rows + 1, sizeof *c->lse);
    assert_int_equal(af_reference_forward(&problem, c->o, c->lse, NULL), ANYFLASH_OK);
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(&problem, b);
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < s.q_count; i++) {
                int64_t at = case_at(b, a->heads, h, a->q_len, i);
                char *row = af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), &s, h, i);
                for (int64_t d = 0; d < a->value_dim; d++)
                    af_convert_store(a->o.dtype, row, d, (float)c->o[at * a->value_dim + d]);
                *af_lse_at(&problem, &s, h, i) = (float)c->lse[at];
            }
        }
    }
}

static inline void case_results(struct backward_case *c, double *results[CASE_OUTPUTS])
{
    for (int n = 0; n < CASE_OUTPUTS; n++)
        results[n] = calloc((size_t)c->counts[n] + 1, sizeof(double));
}

/* The oracle's gradients into c->want. */
static inline void case_oracle(struct backward_case *c)
{
    struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    c->counts[CASE_DQ] = a->batch * a->heads * a->q_len * a->head_dim;
    c->counts[CASE_DK] = a->batch * a->kv_heads * a->k_len * a->head_dim;
    c->counts[CASE_DV] = a->batch * a->kv_heads * a->k_len * a->value_dim;
    c->counts[CASE_DBIAS] = a->batch * a->heads * a->q_len * a->k_len;
    c->counts[CASE_DSINKS] = a->heads;
    case_results(c, c->want);
    case_results(c, c->plain);
    case_results(c, c->stored);
    const struct af_gradients gradients = {c->want[CASE_DQ], c->want[CASE_DK], c->want[CASE_DV],
                                           c->want[CASE_DBIAS], c->want[CASE_DSINKS]};
    assert_int_equal(
        af_reference_backward(&problem, &c->args.dout, c->args.dlse, &gradients, NULL),
        ANYFLASH_OK);
}

static inline float case_dot(const float *x, const float *y, int64_t count)
{
    float sum = 0;
    for (int64_t d = 0; d < count; d++)
        sum += x[d] * y[d];
    return sum;
}

/* What the plain formulas read: keys and values, and the rows of one query. */
struct case_rows {
    struct af_widened k, v;
    float q[AF_DIM_MAX], o[AF_DIM_MAX], dout[AF_DIM_MAX];
};

/* One visible pair of the plain formulas: every step rounded to `type`. */
static inline void case_plain_pair(struct backward_case *c, const struct af_problem *problem,
                                   const struct af_sequence *s, int64_t h, int64_t i, int64_t j,
                                   float delta, int32_t type, struct case_rows *rows,
                                   double *const *results)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t g = h / problem->group, row = case_at(s->batch, a->heads, h, a->q_len, i);
    const int64_t key = case_at(s->batch, a->kv_heads, g, a->k_len, j);
    const float *k = af_widened_row(&rows->k, problem, &a->k, a->head_dim, s, g, j);
    const float *v = af_widened_row(&rows->v, problem, &a->v, a->value_dim, s, g, j);
    float x = case_round(type, case_dot(rows->q, k, a->head_dim) * a->scale);
    float t = a->softcap > 0 ? tanhf(x / a->softcap) : 0, keep = 1;
    float score = a->softcap > 0 ? a->softcap * t : x;
    if (a->bias.data != NULL)
        score += af_convert_load(
            a->bias.dtype,
            af_row_of_tensor(&a->bias, af_dtype_bytes(a->bias.dtype), s->batch, h, i), j);
    if (a->alibi_slopes != NULL)
        score -= a->alibi_slopes[s->batch * a->alibi_batch_stride + h] *
                 fabsf((float)(i + s->offset - j));
    if (a->dropout > 0)
        keep = af_dropout_keeps(problem, s, h, i, j) ? 1 / (1 - a->dropout) : 0;
    float p = case_round(type, expf(score - (float)c->lse[row]));
    float dp = case_round(type, case_dot(rows->dout, v, a->value_dim) * keep);
    float ds = case_round(type, p * (dp - delta));
    float dx = case_round(type, ds * (1 - t * t)) * a->scale;
    results[CASE_DBIAS][row * a->k_len + j] = (double)ds;
    for (int64_t d = 0; d < a->head_dim; d++) {
        double *dq = &results[CASE_DQ][row * a->head_dim + d];
        double *dk = &results[CASE_DK][key * a->head_dim + d];
        *dq = (double)(float)(*dq + (double)(dx * k[d]));
        *dk = (double)(float)(*dk + (double)(dx * rows->q[d]));
    }
    for (int64_t d = 0; d < a->value_dim; d++) {
        double *dv = &results[CASE_DV][key * a->value_dim + d];
        *dv = (double)(float)(*dv + (double)(p * keep * rows->dout[d]));
    }
}

/* Reads row i of head h of q, o and dout, whose strides are those of its problem. */
static inline void read_query(struct case_rows *rows, const struct af_problem *problem,
                              const struct anyflash_tensor *dout, const struct af_sequence *s,
                              int64_t h, int64_t i)
{
    const struct anyflash_attend_args *a = &problem->a;
    af_widen(a->q.dtype, af_row_of_query(&a->q, problem->element_bytes, s, h, i), a->head_dim,
             rows->q);
    af_widen(a->o.dtype, af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), s, h, i),
             a->value_dim, rows->o);
    af_widen(dout->dtype, af_row_of_query(dout, af_dtype_bytes(dout->dtype), s, h, i),
             a->value_dim, rows->dout);
}

/* The plain formulas' gradients, every step rounded to `type`. */
static inline void case_formulas(struct backward_case *c, int32_t type, double *const *results)
{
    struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    struct anyflash_tensor dout = c->args.dout;
    if (a->cu_seqlens_q != NULL)
        dout.batch_stride = 0;
    const size_t keys = (size_t)a->k_len;
    struct case_rows rows = {.k = {calloc(keys * (size_t)a->head_dim + 1, sizeof(float)),
                                   calloc(keys + 1, 1), -1, -1},
                             .v = {calloc(keys * (size_t)a->value_dim + 1, sizeof(float)),
                                   calloc(keys + 1, 1), -1, -1}};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(&problem, b);
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < s.q_count; i++) {
                read_query(&rows, &problem, &dout, &s, h, i);
                struct af_range range = af_visible_range(&problem, &s, i);
                const float *lse = af_lse_at(&problem, &s, h, i);
                float delta = case_dot(rows.dout, rows.o, a->value_dim);
                if (c->args.dlse != NULL)
                    delta -= c->args.dlse[lse - a->lse];
                for (int64_t j = range.first; *lse != -INFINITY && j < range.end; j++) {
                    if (af_mask_allows(&problem, &s, h, i, j))
                        case_plain_pair(c, &problem, &s, h, i, j, delta, type, &rows, results);
                }
                if (a->sinks != NULL && *lse != -INFINITY)
                    results[CASE_DSINKS][h] -=
                        exp((double)(a->sinks[h] - *lse)) * (double)delta;
            }
        }
    }
    free(rows.k.numbers);
    free(rows.k.known);
    free(rows.v.numbers);
    free(rows.v.known);
    for (int n = 0; n <= CASE_DV; n++) {
        for (int64_t e = 0; e < c->counts[n]; e++)
            results[n][e] = (double)case_round(c->dtype, results[n][e]);
    }
}

/* The plain formulas' gradients into c->plain and c->stored. */
static inline void case_plain(struct backward_case *c)
{
    case_formulas(c, ANYFLASH_F32, c->stored);
    if (c->dtype != ANYFLASH_F32)
        case_formulas(c, c->dtype, c->plain);
    for (int n = 0; c->dtype == ANYFLASH_F32 && n < CASE_OUTPUTS; n++)
        memcpy(c->plain[n], c->stored[n], (size_t)c->counts[n] * sizeof(double));
}

static inline void case_free(struct backward_case *c)
{
    for (int n = 0; n < c->guard_count; n++)
        guard_free(&c->guards[n]);
    for (int n = 0; n < CASE_OUTPUTS; n++) {
        free(c->want[n]);
        free(c->plain[n]);
        free(c->stored[n]);
    }
    free(c->o);
    free(c->lse);
    free(c);
}

#endif
