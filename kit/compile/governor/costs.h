/*
 * costs.h: the measured costs of compiler calls, by kind of file, kept in the
 * state database.
 *
 * A new measurement is used at once but written later, because a write takes
 * tens of milliseconds, in which the next compiler could already run.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_COSTS_H
#define AF_KIT_COMPILE_GOVERNOR_COSTS_H

#include "kit/compile/governor/govern.h"

#define AF_COSTS_PENDING_MAX 16

struct af_cost {
    char key[AF_GOVERN_KEY_BYTES];
    uint64_t peak_bytes;
    double seconds;
};

/* Zero-initialised except `state`; without a readable state no costs are known. */
struct af_costs {
    struct af_state *state; /* or NULL */
    struct af_cost pending[AF_COSTS_PENDING_MAX];
    size_t count;
};

/* Replaces the prediction by the measured cost for its key; true if there is one. */
bool af_costs_known(const struct af_costs *costs, struct af_prediction *prediction);

/* The same, from the database alone. */
bool af_costs_correct(struct af_state *state, struct af_prediction *prediction);

/* Keeps the measured peak and time of a successful call. */
void af_costs_learn(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds);

/* Notes that a killed call needs more than `bytes`. */
void af_costs_raise(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t bytes);

/* Writes the measurements since the last call. A failure to write is ignored. */
void af_costs_write(struct af_costs *costs);

#endif
