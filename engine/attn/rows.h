/*
 * rows.h: operations on single rows, for kernels and merging: reading, writing
 * and rounding rows of any type, finishing a softmax row.
 */
#ifndef AF_ENGINE_ATTN_ROWS_H
#define AF_ENGINE_ATTN_ROWS_H

#include <math.h>
#include <string.h>

#include "engine/attn/convert.h"
#include "engine/attn/mask.h"
#include "engine/attn/philox.h"

#define AF_LOG2E 1.44269504088896340736f
#define AF_LN2 0.69314718055994530942f
/* For functions that handle every type and are called once per row: inlining would only make
   the kernels larger. */
#define AF_SHARED_COPY __attribute__((noinline, unused))

static inline void af_scale(float *line, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        line[i] *= factor;
}

/* Reads `count` elements of type `dtype` at `row` as floats. */
static AF_SHARED_COPY void af_row_floats(enum anyflash_dtype dtype, const void *row,
                                         int64_t count, float *out)
{
    if (dtype == ANYFLASH_F32) {
        memcpy(out, row, (size_t)count * sizeof *out);
        return;
    }
    if (af_dtype_is_f8((int32_t)dtype)) {
        for (int64_t i = 0; i < count; i++)
            out[i] = af_f32_of_f8((int32_t)dtype, ((const uint8_t *)row)[i]);
        return;
    }
    const uint16_t *from = (const uint16_t *)row;
    for (int64_t i = 0; i < count; i++)
        out[i] = dtype == ANYFLASH_BF16 ? af_f32_of_bf16(from[i]) : af_f32_of_f16(from[i]);
}

/* Whether none of `count` elements at `row` is NaN or infinite. */
static AF_SHARED_COPY bool af_row_is_finite(enum anyflash_dtype dtype, const void *row,
                                            int64_t count)
{
    if (dtype == ANYFLASH_F32) {
        const char *at = (const char *)row;
        uint32_t nonfinite = 0;
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, at + i * 4, sizeof bits);
            nonfinite |= (bits & 0x7F800000u) == 0x7F800000u;
        }
        return nonfinite == 0;
    }
    if (af_dtype_is_f8((int32_t)dtype)) {
        const uint8_t *from = (const uint8_t *)row;
        const uint8_t mark = dtype == ANYFLASH_F8_E4M3 ? AF_F8_NAN : 0x7c;
        uint8_t nonfinite = 0;
        for (int64_t i = 0; i < count; i++)
            nonfinite = (uint8_t)(nonfinite | ((from[i] & mark) == mark));
        return nonfinite == 0;
    }
    const uint16_t *from = (const uint16_t *)row;
    const uint16_t exponent = dtype == ANYFLASH_BF16 ? 0x7F80 : 0x7C00;
    uint16_t nonfinite = 0;
    for (int64_t i = 0; i < count; i++)
        nonfinite = (uint16_t)(nonfinite | ((from[i] & exponent) == exponent));
    return nonfinite == 0;
}

/* Reads elements [j, j + count) of row (b, head, i) of a tensor as floats. */
static inline void af_convert_load_floats(const struct anyflash_tensor *tensor, int64_t batch,
                                          int64_t head, int64_t i, int64_t j, int64_t count,
                                          float *out)
{
    size_t bytes = tensor->dtype == ANYFLASH_F32 ? 4 : 2;
    const char *row = af_row_of_tensor(tensor, bytes, batch, head, i);
    af_row_floats((enum anyflash_dtype)tensor->dtype, row + j * (int64_t)bytes, count, out);
}

/*
 * Writes `count` floats to row (head, i) of an output of a sequence, rounded to
 * its type.
 */
static AF_SHARED_COPY void af_convert_store_floats(const struct anyflash_tensor *tensor,
                                                   const struct af_sequence *sequence,
                                                   int64_t head, int64_t i, const float *line,
                                                   int64_t count)
{
    if (tensor->dtype == ANYFLASH_F32) {
        memcpy(af_row_of_query(tensor, 4, sequence, head, i), line, (size_t)count * 4);
        return;
    }
    uint16_t *row = (uint16_t *)(void *)af_row_of_query(tensor, 2, sequence, head, i);
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
 * Whether scores, and so the maximum m of a row, are in natural units instead of log2 units.
 * They are if a mask or a bias is added to them. A mask may hold the lowest float, which
 * overflows to -infinity when it is multiplied by log2(e). And if all scores of a row are
 * about -1e9, the backward pass needs their exact difference from lse. They are also if the
 * scale is 0: a score in log2 units is a raw one times a factor, and no raw score times 0
 * hides a key.
 */
static inline bool af_is_natural(const struct af_problem *problem)
{
    return problem->changes_scores || problem->a.scale == 0;
}

/* e^x or, if x is in log2 units, 2^x. */
static inline float af_exp_of(bool natural, float x)
{
    return exp2f(natural ? x * AF_LOG2E : x);
}

/*
 * Finishes a row whose scores had maximum m (units: af_is_natural()) and sum l of
 * e^(s - m) or 2^(s - m); adds a sink to the sum. Returns the factor for o: 0 if nothing
 * was visible, and lse is then -infinity (or the sink's).
 */
static inline float af_close_row(const struct af_problem *problem, int64_t head, float m,
                                 float l, float *lse_out)
{
    const bool natural = af_is_natural(problem);
    float scale = 1.0f;
    if (problem->a.sinks != NULL) {
        float sink = problem->a.sinks[head] * (natural ? 1.0f : AF_LOG2E);
        float top = l > 0 && m > sink ? m : sink;
        scale = l > 0 ? af_exp_of(natural, m - top) : 0.0f;
        l = l * scale + af_exp_of(natural, sink - top);
        m = top;
    }
    if (l == 0) {
        *lse_out = -INFINITY;
        return 0;
    }
    *lse_out = (natural ? m : m * AF_LN2) + logf(l);
    return scale / l;
}

#endif
