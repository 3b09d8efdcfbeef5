/*
 * costs.h: what compilers really took, by the key of their kind, kept in the
 * state database.
 *
 * What is learned counts at once, and is written later: the disk takes tens of
 * milliseconds, in which the next compiler could already run.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_COSTS_H
#define AF_KIT_BUILD_GOVERNOR_COSTS_H

#include "kit/build/governor/govern.h"

#define AF_COSTS_PENDING_MAX 16

struct af_cost {
    char key[AF_GOVERN_KEY_BYTES];
    uint64_t peak_bytes;
    double seconds;
};

/* Zero-initialised but for `state`; without one that can be read nothing is known. */
struct af_costs {
    struct af_state *state; /* or NULL */
    struct af_cost pending[AF_COSTS_PENDING_MAX];
    size_t count;
};

/* Replaces what was predicted by what is known of its key; true when something is. */
bool af_costs_known(const struct af_costs *costs, struct af_prediction *prediction);

/* The same of what is written. */
bool af_costs_correct(struct af_state *state, struct af_prediction *prediction);

/* Keeps the peak and the time of a call that ended well. */
void af_costs_learn(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds);

/* Of a call that was killed: it needs more than `bytes`. */
void af_costs_raise(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t bytes);

/* Writes what was learned since the last time. What cannot be written is only time lost. */
void af_costs_write(struct af_costs *costs);

#endif
