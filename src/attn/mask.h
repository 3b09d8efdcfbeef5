/*
 * mask.h: which keys a query sees. The one definition of visibility, for the
 * oracle and every kernel.
 *
 * Positions alone give a range of keys per query; a bool mask, where there is
 * one, takes keys out of it.
 */
#ifndef AF_ATTN_MASK_H
#define AF_ATTN_MASK_H

#include "attn/problem.h"

/* Keys [first, end) that query `i` of `sequence` sees by position; may be empty. */
struct af_range {
    int64_t first;
    int64_t end;
};

static inline int64_t af_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline struct af_range af_visible_range(const struct af_problem *problem,
                                               const struct af_sequence *sequence, int64_t i)
{
    const struct anyflash_attend_args *a = &problem->a;
    int64_t p = i + sequence->offset;
    int64_t first = sequence->k_first;
    int64_t end = sequence->k_count;
    if (a->causal)
        end = af_clamp(p + 1, 0, end);
    if (a->window_right >= 0)
        end = af_clamp(p + a->window_right + 1, 0, end);
    if (a->window_left >= 0 && p - a->window_left > first)
        first = p - a->window_left;
    struct af_range range = {first, end > first ? end : first};
    return range;
}

/* The bool mask's word on (b, h, i, j); true where there is no mask. */
static inline bool af_mask_allows(const struct af_problem *problem,
                                  const struct af_sequence *sequence, int64_t head, int64_t i,
                                  int64_t j)
{
    const struct anyflash_tensor *mask = &problem->a.mask;
    if (mask->data == NULL)
        return true;
    return af_tensor_row(mask, 1, sequence->batch, head, i)[j] != 0;
}

#endif
