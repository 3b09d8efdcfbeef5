/*
 * costs.h: the measured costs of compiler calls, by kind of file, kept in the
 * state database.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_COSTS_H
#define AF_KIT_COMPILE_GOVERNOR_COSTS_H

#include "kit/compile/governor/govern.h"

/*
 * All functions accept a state of NULL: then no costs are known, and none are kept. A failure
 * to write is ignored.
 */

/* Replaces the prediction by the measured cost for its key; true if there is one. */
bool af_costs_correct(struct af_state *state, struct af_prediction *prediction);

/* Keeps the measured peak and time of a successful call. */
void af_costs_learn(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds);

/* Notes that a killed call needs more than `bytes`. */
void af_costs_raise(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t bytes);

#endif
