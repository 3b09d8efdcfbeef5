/*
 * mask.h: which keys a query sees. This is the only definition of visibility,
 * for the reference implementation and every kernel.
 *
 * Positions give a range of keys per query; a bool mask, if given, removes keys
 * from it.
 */
#ifndef AF_ENGINE_ATTN_MASK_H
#define AF_ENGINE_ATTN_MASK_H

#include "engine/attn/problem.h"

/* Keys [first, end) that query `i` of `sequence` sees by position; may be empty. */
struct af_range {
    int64_t first;
    int64_t end;
};

static inline int64_t af_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int64_t af_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t af_divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

/*
 * The part of positional visibility that does not depend on the query: see
 * af_sight_range().
 */
struct af_sight {
    int64_t first; /* keys that exist: [first, end) */
    int64_t end;
    int64_t from; /* query i sees keys [i + from, i + to) of these */
    int64_t to;
};

/* More than the distance of any two positions. */
#define AF_SIGHT_ALL ((int64_t)1 << 41)

static inline struct af_sight af_sight_of(const struct af_problem *problem,
                                          const struct af_sequence *sequence)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct af_sight sight = {sequence->k_first, sequence->k_count, -AF_SIGHT_ALL, AF_SIGHT_ALL};
    if (a->window_left >= 0)
        sight.from = sequence->offset - a->window_left;
    if (a->window_right >= 0)
        sight.to = sequence->offset + a->window_right + 1;
    if (a->causal && (a->window_right < 0 || sight.to > sequence->offset + 1))
        sight.to = sequence->offset + 1;
    return sight;
}

static inline struct af_range af_sight_range(struct af_sight sight, int64_t i)
{
    int64_t first = i + sight.from > sight.first ? i + sight.from : sight.first;
    int64_t end = i + sight.to < sight.end ? i + sight.to : sight.end;
    struct af_range range = {first, end > first ? end : first};
    return range;
}

static inline struct af_range af_visible_range(const struct af_problem *problem,
                                               const struct af_sequence *sequence, int64_t i)
{
    return af_sight_range(af_sight_of(problem, sequence), i);
}

/* Whether the first visible key depends on the query. */
static inline bool af_first_moves(const struct anyflash_attend_args *a)
{
    return a->window_left >= 0;
}

/* Whether the end of the visible keys depends on the query. */
static inline bool af_end_moves(const struct anyflash_attend_args *a)
{
    return a->causal || a->window_right >= 0;
}

/* Row of rotary_cos for query `i` of batch `batch`: see anyflash.h. */
static inline int64_t af_rotary_position(const struct anyflash_attend_args *a, int64_t batch,
                                         int64_t i)
{
    return a->seqused_k[batch] + (af_first_moves(a) || af_end_moves(a) ? i : 0);
}

/* The bool mask's value at (b, h, i, j); true without a mask. */
static inline bool af_mask_allows(const struct af_problem *problem,
                                  const struct af_sequence *sequence, int64_t head, int64_t i,
                                  int64_t j)
{
    const struct anyflash_tensor *mask = &problem->a.mask;
    if (mask->data == NULL)
        return true;
    return af_row_of_tensor(mask, 1, sequence->batch, head, i)[j] != 0;
}

/* Whether query i of `head` sees key j, by position and by mask. */
static inline bool af_sees(const struct af_problem *problem, const struct af_sequence *sequence,
                           int64_t head, int64_t i, int64_t j)
{
    struct af_range range = af_visible_range(problem, sequence, i);
    return j >= range.first && j < range.end && af_mask_allows(problem, sequence, head, i, j);
}

#endif
