/*
 * state_proofs.h: the conclusions of earlier inspections, kept in the state file, so that a
 * decision can use them without reading the wheels again. A row says whether the wheel at an
 * address loads in an environment, and why.
 *
 * A row is about the bytes that the address had when it was inspected; an installation proves
 * the file that it downloads. Rows are found by hashes of what the answer depends on
 * (probe/probe.h), so a row is no longer found after torch, Python or the C library
 * has changed. Inspecting the wheel again stores a new one.
 *
 * Rows only save time, so these functions report no failures: a row that cannot be read counts
 * as absent, and one that cannot be written is not stored. A NULL state is empty.
 */
#ifndef AF_KIT_SYSTEM_STATE_PROOFS_H
#define AF_KIT_SYSTEM_STATE_PROOFS_H

#include "kit/system/state.h"

#define AF_STATE_PROOFS_MAX 256u

struct af_state_proof {
    const char *address;     /* of the wheel; secrets in it are not stored */
    const char *environment; /* hash of what decides whether a wheel loads */
    /* hash of the rest that this answer depends on, such as GPUs; NULL: on nothing else */
    const char *surroundings;
    enum af_answer answer; /* whether it loads */
    const char *reason;    /* why it does not load, in one sentence; NULL: it is not stated */
    const char *built_for; /* "torch 2.7 or 2.8"; NULL: not known */
};

/*
 * Stores a proof of today in place of the earlier one for the same address and environment. If
 * there are too many, the oldest are deleted.
 */
void af_state_proof_put(struct af_state *state, const struct af_state_proof *proof);

/*
 * The stored proofs that hold for an environment with these hashes, latest first, at most
 * AF_STATE_PROOFS_MAX. The list is in the arena; its texts are scrubbed for printing. Check
 * arena->failed.
 */
void af_state_proofs_find(struct af_state *state, const char *environment,
                          const char *surroundings, struct af_arena *arena,
                          const struct af_state_proof **proofs_out, size_t *count_out);

#endif
