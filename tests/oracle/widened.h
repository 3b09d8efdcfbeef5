/*
 * widened.h: rows of keys or values as floats. Formulas read a row once for every query; here
 * it is converted once for every key head. Rows that no formula asks for are not read.
 */
#ifndef AF_TEST_WIDENED_H
#define AF_TEST_WIDENED_H

#include "engine/attn/convert.h"
#include "engine/attn/problem.h"

struct af_widened {
    float *numbers;      /* [Sk, dim] */
    bool *known;         /* [Sk]: the row is in `numbers` */
    int64_t batch, head; /* of these rows; -1 at first */
};

static inline void af_widen(int32_t dtype, const void *row, int64_t count, float *out)
{
    for (int64_t d = 0; d < count; d++)
        out[d] = af_convert_load(dtype, row, d);
}

/* Row `j` of a key head of `tensor`, which is k or v: `dim` floats. */
static inline const float *af_widened_row(struct af_widened *rows,
                                          const struct af_problem *problem,
                                          const struct anyflash_tensor *tensor, int64_t dim,
                                          const struct af_sequence *s, int64_t head, int64_t j)
{
    if (rows->batch != s->batch || rows->head != head) {
        memset(rows->known, 0, (size_t)s->k_count * sizeof *rows->known);
        rows->batch = s->batch;
        rows->head = head;
    }
    float *row = rows->numbers + j * dim;
    if (!rows->known[j])
        af_widen(tensor->dtype, af_row_of_key(problem, tensor, s, head, j), dim, row);
    rows->known[j] = true;
    return row;
}

#endif
