/*
 * forward_plain.h: the plain implementation that kernels are compared with:
 * scores, exponentials and sums in f32, probabilities and results rounded to
 * the tensors' type. A kernel's error may be twice as large as that of this
 * implementation.
 */
#ifndef AF_TEST_FORWARD_PLAIN_H
#define AF_TEST_FORWARD_PLAIN_H

#include "tests/oracle/dropout.h"
#include "tests/oracle/widened.h"

#include "forward_case.h"

static inline float plain_round(int32_t dtype, float x)
{
    return dtype == ANYFLASH_F32   ? x
           : dtype == ANYFLASH_F16 ? af_f32_of_f16(af_f16_of_f32(x))
                                   : af_f32_of_bf16(af_bf16_of_f32(x));
}

/*
 * One score of a visible pair, from the rows of the query and the key. *roundings becomes the
 * sum of the sizes of its products if that is larger: no partial sum is larger.
 */
static inline float plain_score(const struct af_problem *problem, const struct af_sequence *s,
                                int64_t h, int64_t i, int64_t j, const float *q, const float *k,
                                double *roundings)
{
    const struct anyflash_attend_args *a = &problem->a;
    float sum = 0, sizes = 0;
    for (int64_t d = 0; d < a->head_dim; d++) {
        sum += q[d] * k[d];
        sizes += fabsf(q[d] * k[d]);
    }
    const float scale =
        a->scale * af_scale_of_key(problem, a->k_scales, s, h / problem->group, j);
    const double size = fabs((double)(sizes * scale));
    *roundings = isfinite(size) && size > *roundings ? size : *roundings;
    float score = sum * scale;
    if (a->softcap > 0)
        score = a->softcap * tanhf(score / a->softcap);
    if (a->bias.data != NULL)
        score += af_convert_load(
            a->bias.dtype,
            af_row_of_tensor(&a->bias, af_dtype_bytes(a->bias.dtype), s->batch, h, i), j);
    if (a->alibi_slopes != NULL)
        score -= af_alibi_slope(problem, s->batch, h) * fabsf((float)(i + s->offset - j));
    return score;
}

struct plain_rows {
    float *scores; /* [Sk] */
    struct af_widened k, v;
    double largest_sum; /* of the sizes of the products of a score */
};

/* Row i of head h: o [Dv] and its lse. */
static inline void plain_row(const struct af_problem *problem, const struct af_sequence *s,
                             int64_t h, int64_t i, struct plain_rows *rows, double *o,
                             double *lse)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t kv_head = h / problem->group;
    float *scores = rows->scores, q[AF_DIM_MAX];
    const struct af_range range = af_visible_range(problem, s, i);
    float line[AF_DIM_MAX] = {0}, top = a->sinks != NULL ? a->sinks[h] : -INFINITY, sum = 0;
    af_widen(a->q.dtype, af_row_of_query(&a->q, problem->element_bytes, s, h, i), a->head_dim,
             q);
    for (int64_t j = range.first; j < range.end; j++) {
        scores[j] = -INFINITY;
        if (af_mask_allows(problem, s, h, i, j))
            scores[j] = plain_score(
                problem, s, h, i, j, q,
                af_widened_row(&rows->k, problem, &a->k, a->head_dim, s, kv_head, j),
                &rows->largest_sum);
        top = scores[j] > top ? scores[j] : top;
    }
    if (top == -INFINITY) {
        *lse = -INFINITY;
        return;
    }
    for (int64_t j = range.first; j < range.end; j++)
        sum += expf(scores[j] - top);
    sum += a->sinks != NULL ? expf(a->sinks[h] - top) : 0;
    for (int64_t j = range.first; j < range.end; j++) {
        float p = plain_round(a->q.dtype, expf(scores[j] - top) / sum);
        if (scores[j] == -INFINITY ||
            (a->dropout > 0 && !af_dropout_keeps(problem, s, h, i, j)))
            continue;
        const float *v = af_widened_row(&rows->v, problem, &a->v, a->value_dim, s, kv_head, j);
        p *= af_scale_of_key(problem, a->v_scales, s, kv_head, j) / (1 - a->dropout);
        for (int64_t d = 0; d < a->value_dim; d++)
            line[d] += p * v[d];
    }
    for (int64_t d = 0; d < a->value_dim; d++)
        o[d] = (double)plain_round(a->o.dtype, line[d]);
    *lse = (double)(top + logf(sum));
}

/*
 * Writes o [B, H, Sq, Dv] and lse [B, H, Sq] of a prepared problem; returns the
 * largest score, and as *largest_sum_out the largest sum of the sizes of a score's products.
 */
static inline double plain_forward(const struct af_problem *problem, double *o, double *lse,
                                   double *largest_sum_out)
{
    double largest = 0;
    const struct anyflash_attend_args *a = &problem->a;
    const size_t keys = (size_t)a->k_len;
    float *floats =
        malloc((keys + 1) * (size_t)(1 + a->head_dim + a->value_dim) * sizeof *floats);
    bool *known = malloc(2 * keys + 1);
    float *k = floats + keys, *v = k + keys * (size_t)a->head_dim;
    struct plain_rows rows = {floats, {k, known, -1, -1}, {v, known + keys, -1, -1}, 0};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(problem, b);
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < s.q_count; i++) {
                int64_t row = (b * a->heads + h) * a->q_len + i;
                const struct af_range range = af_visible_range(problem, &s, i);
                plain_row(problem, &s, h, i, &rows, o + row * a->value_dim, lse + row);
                for (int64_t j = range.first; j < range.end; j++) {
                    double size = fabs((double)rows.scores[j]);
                    largest = isfinite(size) && size > largest ? size : largest;
                }
            }
        }
    }
    free(floats);
    free(known);
    *largest_sum_out = rows.largest_sum;
    return largest;
}

#endif
