/*
 * visibility_case.h: the options that make a row see only some of the keys, by their positions:
 * how random problems and problems of pairs choose them, forward and backward alike. A new one
 * goes here, and into `pictures` of test_oracle.c.
 */
#ifndef AF_TEST_VISIBILITY_CASE_H
#define AF_TEST_VISIBILITY_CASE_H

#include "anyflash/anyflash.h"

#include "case_random.h"
#include "pair_number.h"

/* Features whose bits come before those of `enum feature`, and the first of feature_names. */
enum visibility { CAUSAL, WINDOW, VISIBILITIES };
#define VISIBILITY_NAMES "causal", "window"

/* Any of them, or none; `offsets` has an element for each sequence. */
static inline void visibility_any(struct anyflash_attend_args *a, int32_t *offsets,
                                  uint64_t *state)
{
    a->causal = random_one_in(state, 2);
    a->align = (int32_t)random_pick(state, 0, 2);
    for (int64_t b = 0; b < a->batch; b++)
        offsets[b] = (int32_t)random_pick(state, -30, 90);
    if (a->align == ANYFLASH_ALIGN_OFFSETS)
        a->causal_offsets = offsets;
    if (random_one_in(state, 3))
        a->window_left = random_pick(state, 0, 80);
    if (random_one_in(state, 4))
        a->window_right = random_pick(state, 0, 80);
}

/*
 * Those of `features`. Offsets are near the end of the keys; up to `beyond` behind it for some
 * sequences.
 */
static inline void visibility_of(struct anyflash_attend_args *a, unsigned features,
                                 int64_t beyond, int32_t *offsets, uint64_t *state)
{
    const bool is_causal = HAS(features, CAUSAL);
    const bool has_window = HAS(features, WINDOW);
    a->causal = is_causal;
    a->align = (int32_t)random_pick(state, 0, 1);
    if ((is_causal || has_window) && random_one_in(state, 3)) {
        for (int64_t b = 0; b < a->batch; b++)
            offsets[b] = (int32_t)(a->k_len + (random_one_in(state, 4) ? beyond : 0) -
                                   random_pick(state, 1, 60));
        a->causal_offsets = offsets;
        a->align = ANYFLASH_ALIGN_OFFSETS;
    }
    if (has_window) {
        const int64_t most = random_one_in(state, 3) ? 15 : a->k_len < 400 ? 90 : a->k_len;
        a->window_left = random_one_in(state, 4) ? -1 : random_pick(state, 0, most);
        a->window_right =
            a->window_left < 0 || random_one_in(state, 3) ? random_pick(state, 0, 60) : -1;
    }
}

#endif
