/*
 * backward_rows.c: row by row parts of the backward. See backward_rows.h;
 * called by backward.c.
 */
#include "engine/attn/backward_rows.h"

#include "engine/attn/rows.h"

#define SUMS 16 /* sums side by side, so that a vector can hold them */

static void clear_rows(const struct anyflash_tensor *tensor, int64_t batch, int64_t head,
                       int64_t row, int64_t end, int64_t dim)
{
    const size_t bytes = af_dtype_bytes(tensor->dtype);
    for (; tensor->data != NULL && row < end; row++)
        memset(af_row_of_tensor(tensor, bytes, batch, head, row), 0, (size_t)dim * bytes);
}

void af_backward_clear_unused(const struct af_backward_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence s = af_problem_sequence(&problem->forward, b);
        const int64_t k_full =
            a->cu_seqlens_k != NULL ? a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b] : a->k_len;
        for (int64_t h = 0; h < a->heads; h++)
            clear_rows(&problem->dq, b, h, s.q_row + (s.k_count > 0 ? s.q_count : 0),
                       s.q_row + s.q_full, a->head_dim);
        for (int64_t g = 0; g < a->kv_heads; g++) {
            clear_rows(&problem->dk, b, g, s.k_row + s.k_count, s.k_row + k_full, a->head_dim);
            clear_rows(&problem->dv, b, g, s.k_row + s.k_count, s.k_row + k_full, a->value_dim);
        }
    }
}

void af_backward_clear_bias(const struct af_backward_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    const struct anyflash_tensor *dbias = &problem->dbias;
    const int64_t batches = dbias->batch_stride == 0 && a->batch > 1 ? 1 : a->batch;
    const int64_t heads = dbias->head_stride == 0 ? 1 : a->heads;
    const int64_t rows = dbias->row_stride == 0 && a->q_len > 1 ? 1 : a->q_len;
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t h = 0; h < heads; h++)
            clear_rows(dbias, b, h, 0, rows, a->k_len);
    }
}

static float dot(const float *x, const float *y, int64_t count)
{
    float sums[SUMS] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i += SUMS) {
        for (int64_t n = 0; n < SUMS; n++)
            sums[n] += x[i + n] * y[i + n];
    }
    for (int64_t n = 0; n < SUMS; n++)
        sum += sums[n];
    return sum;
}

/* dlse - dO.O of one row. */
static float row_gradient(const struct af_backward_problem *problem,
                          const struct af_sequence *sequence, int64_t head, int64_t i)
{
    const struct anyflash_tensor *o = &problem->forward.a.o;
    const int64_t dim = problem->forward.a.value_dim;
    float x[AF_DIM_MAX + SUMS] = {0}, y[AF_DIM_MAX + SUMS] = {0};
    float dlse = 0;
    af_convert_load_floats(o, sequence->batch, head, sequence->q_row + i, 0, dim, x);
    af_convert_load_floats(&problem->dout, sequence->batch, head, sequence->q_row + i, 0, dim,
                           y);
    if (problem->dlse != NULL)
        dlse = problem->dlse[af_lse_at(&problem->forward, sequence, head, i) -
                             problem->forward.a.lse];
    return dlse - dot(x, y, dim);
}

void af_backward_sink(const struct af_backward_problem *problem, int64_t head)
{
    const struct anyflash_attend_args *a = &problem->forward.a;
    double sum = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence sequence = af_problem_sequence(&problem->forward, b);
        for (int64_t i = 0; i < sequence.q_count; i++) {
            float lse = *af_lse_at(&problem->forward, &sequence, head, i);
            if (lse != -INFINITY)
                sum += exp((double)a->sinks[head] - (double)lse) *
                       (double)row_gradient(problem, &sequence, head, i);
        }
    }
    problem->dsinks[head] = (float)sum;
}
