/*
 * reference.c: attention and its gradients in double, by the plain formulas of
 * docs/design/attend.md. See reference.h.
 */
#include "tests/oracle/reference.h"

#include <math.h>

#include "engine/attn/mask.h"
#include "engine/base/mem.h"

#include "tests/oracle/dropout.h"
#include "tests/oracle/widened.h"

/* One query's row of the attention matrix, over keys [0, Sk). */
struct row {
    double *score;  /* of visible keys: the input of the softmax */
    double *slope;  /* d score / d (scale * q.k): 1, or the softcap's derivative */
    double *weight; /* softmax; 0 for hidden keys */
    double *keep;   /* dropout's factor: 0 or 1 / (1 - p); 1 without dropout */
    double *dscore; /* d result / d score; backward only */
    bool *visible;
    double lse;
    double sink_weight;  /* the sink's share of the softmax */
    float q[AF_DIM_MAX]; /* the query */
    struct af_widened k, v;
};

static enum anyflash_status row_new(struct row *row, const struct anyflash_attend_args *a,
                                    struct anyflash_error *err)
{
    const size_t count = (size_t)a->k_len;
    const size_t of_keys = count * (size_t)a->head_dim,
                 of_values = count * (size_t)a->value_dim;
    double *numbers = af_mem_alloc(count * (5 * sizeof(double) + 3 * sizeof(bool)) +
                                   (of_keys + of_values) * sizeof(float));
    if (numbers == NULL)
        return af_fail_memory(err);
    float *floats = (float *)(numbers + 5 * count);
    bool *flags = (bool *)(floats + of_keys + of_values);
    row->score = numbers;
    row->slope = numbers + count;
    row->weight = numbers + 2 * count;
    row->keep = numbers + 3 * count;
    row->dscore = numbers + 4 * count;
    row->visible = flags;
    row->k = (struct af_widened){floats, flags + count, -1, -1};
    row->v = (struct af_widened){floats + of_keys, flags + 2 * count, -1, -1};
    return ANYFLASH_OK;
}

static void row_free(struct row *row)
{
    af_mem_free(row->score);
}

static double dot(const float *x, const float *y, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++)
        sum += (double)x[d] * (double)y[d];
    return sum;
}

static double bias_at(const struct af_problem *problem, const struct af_sequence *s,
                      int64_t head, int64_t i, int64_t j)
{
    const struct anyflash_tensor *bias = &problem->a.bias;
    if (bias->data == NULL)
        return 0;
    return (double)af_convert_load(
        bias->dtype, af_row_of_tensor(bias, af_dtype_bytes(bias->dtype), s->batch, head, i), j);
}

static double alibi_at(const struct af_problem *problem, const struct af_sequence *s,
                       int64_t head, int64_t i, int64_t j)
{
    const struct anyflash_attend_args *a = &problem->a;
    if (a->alibi_slopes == NULL)
        return 0;
    double slope = (double)a->alibi_slopes[s->batch * a->alibi_batch_stride + head];
    return -slope * fabs((double)(i + s->offset - j));
}

/* Computes the scores of the keys that query i sees. */
static void fill_scores(const struct af_problem *problem, const struct af_sequence *s,
                        int64_t head, int64_t i, struct row *row)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct af_range range = af_visible_range(problem, s, i);
    double cap = (double)a->softcap;
    af_widen(a->q.dtype, af_row_of_query(&a->q, problem->element_bytes, s, head, i),
             a->head_dim, row->q);
    for (int64_t j = 0; j < s->k_count; j++) {
        row->visible[j] =
            j >= range.first && j < range.end && af_mask_allows(problem, s, head, i, j);
        if (!row->visible[j])
            continue;
        const float *k =
            af_widened_row(&row->k, problem, &a->k, a->head_dim, s, head / problem->group, j);
        double k_scale =
            (double)af_scale_of_key(problem, a->k_scales, s, head / problem->group, j);
        double x = (double)a->scale * k_scale * dot(row->q, k, a->head_dim);
        double t = cap > 0 ? tanh(x / cap) : 0;
        row->slope[j] = 1 - t * t;
        row->score[j] = (cap > 0 ? cap * t : x) + bias_at(problem, s, head, i, j) +
                        alibi_at(problem, s, head, i, j);
    }
}

/* The larger one; NaN if either is. */
static double max_or_nan(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

/* Computes weights and lse from scores; a row that sees nothing has weights 0. */
static void fill_weights(const struct af_problem *problem, const struct af_sequence *s,
                         int64_t head, struct row *row)
{
    const float *sinks = problem->a.sinks;
    double sink = sinks != NULL ? (double)sinks[head] : -INFINITY;
    double max = sink, sum = 0;
    for (int64_t j = 0; j < s->k_count; j++) {
        if (row->visible[j])
            max = max_or_nan(max, row->score[j]);
        row->weight[j] = 0;
    }
    row->lse = -INFINITY;
    row->sink_weight = 0;
    if (max == -INFINITY)
        return;
    for (int64_t j = 0; j < s->k_count; j++)
        sum += row->visible[j] ? exp(row->score[j] - max) : 0;
    sum += exp(sink - max);
    for (int64_t j = 0; j < s->k_count; j++)
        row->weight[j] = row->visible[j] ? exp(row->score[j] - max) / sum : 0;
    row->sink_weight = exp(sink - max) / sum;
    row->lse = max + log(sum);
}

static void fill_keep(const struct af_problem *problem, const struct af_sequence *s,
                      int64_t head, int64_t i, struct row *row)
{
    double p = (double)problem->a.dropout;
    for (int64_t j = 0; j < s->k_count; j++) {
        if (p == 0)
            row->keep[j] = 1;
        else
            row->keep[j] = af_dropout_keeps(problem, s, head, i, j) ? 1 / (1 - p) : 0;
    }
}

static void row_fill(const struct af_problem *problem, const struct af_sequence *s,
                     int64_t head, int64_t i, struct row *row)
{
    fill_scores(problem, s, head, i, row);
    fill_weights(problem, s, head, row);
    fill_keep(problem, s, head, i, row);
}

/* o = sum of weight * keep * v; a row that sees nothing stays 0. */
static void output_row(const struct af_problem *problem, const struct af_sequence *s,
                       int64_t head, struct row *row, double *o)
{
    const struct anyflash_attend_args *a = &problem->a;
    for (int64_t j = 0; j < s->k_count; j++) {
        if (!row->visible[j])
            continue;
        const float *v =
            af_widened_row(&row->v, problem, &a->v, a->value_dim, s, head / problem->group, j);
        double v_scale =
            (double)af_scale_of_key(problem, a->v_scales, s, head / problem->group, j);
        for (int64_t d = 0; d < a->value_dim; d++)
            o[d] += row->weight[j] * row->keep[j] * v_scale * (double)v[d];
    }
}

enum anyflash_status af_reference_forward(const struct af_problem *problem, double *o,
                                          double *lse, struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    int64_t rows = a->batch * a->heads * a->q_len;
    struct row row;
    enum anyflash_status status = row_new(&row, a, err);
    if (status != ANYFLASH_OK)
        return status;
    for (int64_t r = 0; r < rows * a->value_dim && o != NULL; r++)
        o[r] = 0;
    for (int64_t r = 0; r < rows && lse != NULL; r++)
        lse[r] = -INFINITY;
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(problem, b);
        for (int64_t head = 0; head < a->heads; head++) {
            for (int64_t i = 0; i < s.q_count; i++) {
                int64_t at = (b * a->heads + head) * a->q_len + i;
                row_fill(problem, &s, head, i, &row);
                if (o != NULL)
                    output_row(problem, &s, head, &row, o + at * a->value_dim);
                if (lse != NULL)
                    lse[at] = row.lse;
            }
        }
    }
    row_free(&row);
    return ANYFLASH_OK;
}

/* One query's part of the backward: pointers to its inputs and results. */
struct step {
    const struct af_problem *problem;
    const struct af_gradients *gradients;
    struct af_sequence s;
    int64_t head, i;
    float dout[AF_DIM_MAX];
    double dlse;
};

/* dscore = weight * (keep * dout.v - delta + dlse), delta = sum of weight * keep * dout.v. */
static void fill_dscores(const struct step *step, struct row *row)
{
    const struct anyflash_attend_args *a = &step->problem->a;
    int64_t kv_head = step->head / step->problem->group;
    double delta = 0;
    for (int64_t j = 0; j < step->s.k_count; j++) {
        row->dscore[j] = 0;
        if (!row->visible[j])
            continue;
        const float *v =
            af_widened_row(&row->v, step->problem, &a->v, a->value_dim, &step->s, kv_head, j);
        row->dscore[j] = row->keep[j] * dot(step->dout, v, a->value_dim);
        delta += row->weight[j] * row->dscore[j];
    }
    for (int64_t j = 0; j < step->s.k_count; j++) {
        if (row->visible[j])
            row->dscore[j] = row->weight[j] * (row->dscore[j] - delta + step->dlse);
    }
    if (step->gradients->dsinks != NULL)
        step->gradients->dsinks[step->head] += row->sink_weight * (step->dlse - delta);
}

/* Adds what query i contributes to the gradients of key j. */
static void add_key(const struct step *step, struct row *row, int64_t j)
{
    const struct anyflash_attend_args *a = &step->problem->a;
    const struct af_gradients *g = step->gradients;
    int64_t kv_head = step->head / step->problem->group;
    int64_t key = (step->s.batch * a->kv_heads + kv_head) * a->k_len + j;
    int64_t query = (step->s.batch * a->heads + step->head) * a->q_len + step->i;
    double dx = row->dscore[j] * row->slope[j] * (double)a->scale;
    const float *k =
        af_widened_row(&row->k, step->problem, &a->k, a->head_dim, &step->s, kv_head, j);
    for (int64_t d = 0; d < a->head_dim && g->dq != NULL; d++)
        g->dq[query * a->head_dim + d] += dx * (double)k[d];
    for (int64_t d = 0; d < a->head_dim && g->dk != NULL; d++)
        g->dk[key * a->head_dim + d] += dx * (double)row->q[d];
    for (int64_t d = 0; d < a->value_dim && g->dv != NULL; d++)
        g->dv[key * a->value_dim + d] += row->weight[j] * row->keep[j] * (double)step->dout[d];
    if (g->dbias != NULL)
        g->dbias[query * a->k_len + j] = row->dscore[j];
}

static void clear(double *numbers, int64_t count)
{
    for (int64_t n = 0; n < count && numbers != NULL; n++)
        numbers[n] = 0;
}

static void clear_gradients(const struct anyflash_attend_args *a, const struct af_gradients *g)
{
    clear(g->dq, a->batch * a->heads * a->q_len * a->head_dim);
    clear(g->dk, a->batch * a->kv_heads * a->k_len * a->head_dim);
    clear(g->dv, a->batch * a->kv_heads * a->k_len * a->value_dim);
    clear(g->dbias, a->batch * a->heads * a->q_len * a->k_len);
    clear(g->dsinks, a->heads);
}

static void backward_sequence(struct step *step, const struct anyflash_tensor *dout,
                              const float *dlse, struct row *row)
{
    const struct anyflash_attend_args *a = &step->problem->a;
    const struct af_sequence *s = &step->s;
    for (step->head = 0; step->head < a->heads; step->head++) {
        for (step->i = 0; step->i < s->q_count; step->i++) {
            row_fill(step->problem, s, step->head, step->i, row);
            if (row->lse == -INFINITY)
                continue;
            af_widen(dout->dtype,
                     af_row_of_query(dout, af_dtype_bytes(dout->dtype), s, step->head, step->i),
                     a->value_dim, step->dout);
            step->dlse =
                dlse == NULL
                    ? 0
                    : (double)dlse[s->batch * a->lse_batch_stride +
                                   step->head * a->lse_head_stride + s->q_row + step->i];
            fill_dscores(step, row);
            for (int64_t j = 0; j < s->k_count; j++) {
                if (row->visible[j])
                    add_key(step, row, j);
            }
        }
    }
}

enum anyflash_status af_reference_backward(const struct af_problem *problem,
                                           const struct anyflash_tensor *dout,
                                           const float *dlse,
                                           const struct af_gradients *gradients,
                                           struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct anyflash_tensor packed = *dout;
    struct row row;
    enum anyflash_status status = row_new(&row, a, err);
    if (status != ANYFLASH_OK)
        return status;
    if (a->cu_seqlens_q != NULL)
        packed.batch_stride = 0;
    clear_gradients(a, gradients);
    struct step step = {.problem = problem, .gradients = gradients};
    for (int64_t b = 0; b < a->batch; b++) {
        step.s = af_problem_sequence(problem, b);
        backward_sequence(&step, &packed, dlse, &row);
    }
    row_free(&row);
    return ANYFLASH_OK;
}
