/*
 * costs.h: what compilers really took, by the key of their kind, kept in the
 * state database.
 */
#ifndef AF_GOVERN_COSTS_H
#define AF_GOVERN_COSTS_H

#include "govern/govern.h"

/*
 * Replaces what was predicted by what is known of its key; true when something
 * is. Without a state, or when it cannot be read, nothing changes.
 */
bool af_costs_correct(struct af_state *state, struct af_prediction *prediction);

/* Keeps the peak and the time of a call that ended well. */
void af_costs_learn(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds);

/* Of a call that was killed: it needs more than `bytes`. */
void af_costs_raise(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t bytes);

#endif
