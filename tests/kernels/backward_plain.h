/*
 * backward_plain.h: the gradients of a backward case by plain formulas, every step rounded to
 * the tensors' type or to f32. A kernel's error may be twice as large as theirs.
 */
#ifndef AF_TEST_BACKWARD_PLAIN_H
#define AF_TEST_BACKWARD_PLAIN_H

#include "tests/oracle/dropout.h"
#include "tests/oracle/widened.h"

#include "backward_case.h"

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

/*
 * Reads row i of head h of q, o and dout, whose strides are those of its problem. Kernels that
 * multiply bf16 round a dout of f32 (`type` says so), for delta as for dP.
 */
static inline void read_query(struct case_rows *rows, const struct af_problem *problem,
                              const struct anyflash_tensor *dout, const struct af_sequence *s,
                              int64_t h, int64_t i, int32_t type)
{
    const struct anyflash_attend_args *a = &problem->a;
    af_widen(a->q.dtype, af_row_of_query(&a->q, problem->element_bytes, s, h, i), a->head_dim,
             rows->q);
    af_widen(a->o.dtype, af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), s, h, i),
             a->value_dim, rows->o);
    af_widen(dout->dtype, af_row_of_query(dout, af_dtype_bytes(dout->dtype), s, h, i),
             a->value_dim, rows->dout);
    for (int64_t d = 0; type == ANYFLASH_BF16 && d < a->value_dim; d++)
        rows->dout[d] = case_round(type, rows->dout[d]);
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
                read_query(&rows, &problem, &dout, &s, h, i, type);
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
                    results[CASE_DSINKS][h] -= (double)expf(a->sinks[h] - *lse) * (double)delta;
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

#endif
