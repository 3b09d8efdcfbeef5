/*
 * rows.h: what is done to one row at a time, by kernels and by merging: reading,
 * writing and rounding rows of any type, closing a softmax row.
 */
#ifndef AF_ATTN_ROWS_H
#define AF_ATTN_ROWS_H

#include <math.h>
#include <string.h>

#include "attn/convert.h"
#include "attn/mask.h"
#include "attn/philox.h"

#define AF_LOG2E 1.44269504088896340736f
#define AF_LN2 0.69314718055994530942f

static inline void af_scale(float *line, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        line[i] *= factor;
}

/* Elements [j, j + count) of row (b, head, i) of a tensor, as floats. */
static inline void af_load_floats(const struct anyflash_tensor *tensor, int64_t batch,
                                  int64_t head, int64_t i, int64_t j, int64_t count, float *out)
{
    if (tensor->dtype == ANYFLASH_F32) {
        memcpy(out, af_tensor_row(tensor, 4, batch, head, i) + j * 4, (size_t)count * 4);
        return;
    }
    const uint16_t *row =
        (const uint16_t *)(const void *)af_tensor_row(tensor, 2, batch, head, i);
    for (int64_t e = 0; e < count; e++)
        out[e] = tensor->dtype == ANYFLASH_BF16 ? af_f32_of_bf16(row[j + e])
                                                : af_f32_of_f16(row[j + e]);
}

/* `count` floats as row (head, i) of an output of a sequence, rounded to its type. */
static inline void af_store_floats(const struct anyflash_tensor *tensor,
                                   const struct af_sequence *sequence, int64_t head, int64_t i,
                                   const float *line, int64_t count)
{
    if (tensor->dtype == ANYFLASH_F32) {
        memcpy(af_query_row(tensor, 4, sequence, head, i), line, (size_t)count * 4);
        return;
    }
    uint16_t *row = (uint16_t *)(void *)af_query_row(tensor, 2, sequence, head, i);
    for (int64_t e = 0; e < count; e++)
        row[e] =
            tensor->dtype == ANYFLASH_BF16 ? af_bf16_of_f32(line[e]) : af_f16_of_f32(line[e]);
}

static inline float af_alibi_slope(const struct af_problem *problem, int64_t batch,
                                   int64_t head)
{
    const struct anyflash_attend_args *a = &problem->a;
    return a->alibi_slopes == NULL ? 0.0f
                                   : a->alibi_slopes[batch * a->alibi_batch_stride + head];
}

/*
 * Ends a row whose scores had maximum m (log2 units) and sum l of 2^(s - m):
 * a sink joins the sum. Returns what o is multiplied by; 0 where nothing was
 * visible, and lse is then -infinity (or the sink's).
 */
static inline float af_close_row(const struct af_problem *problem, int64_t head, float m,
                                 float l, float *lse_out)
{
    float scale = 1.0f;
    if (problem->a.sinks != NULL) {
        float sink = problem->a.sinks[head] * AF_LOG2E;
        float top = l > 0 && m > sink ? m : sink;
        scale = l > 0 ? exp2f(m - top) : 0.0f;
        l = l * scale + exp2f(sink - top);
        m = top;
    }
    if (l == 0) {
        *lse_out = -INFINITY;
        return 0;
    }
    *lse_out = m * AF_LN2 + logf(l);
    return scale / l;
}

#endif
