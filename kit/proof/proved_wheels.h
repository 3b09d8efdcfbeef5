/*
 * proved_wheels.h: proofs of wheels of the catalog whose bytes are here or were read
 * before, for a decision (fit/fit.h). Uses no network.
 */
#ifndef AF_KIT_PROOF_PROVED_WHEELS_H
#define AF_KIT_PROOF_PROVED_WHEELS_H

#include "kit/fit/fit.h"
#include "kit/system/state.h"

#define AF_PROOF_PROVED_WHEELS_MAX 16u

/*
 * Of the wheels of `catalog` that `options` ask for: those that a proof could
 * settle on `machine`, which is this one, and whose file lies in the folder
 * `from` (NULL: none) or whose address was inspected before, at most
 * AF_PROOF_PROVED_WHEELS_MAX, best ranked first, each proved beside the
 * environment's torch. What cannot be read is passed over. List and texts are in
 * the arena, wheels are the catalog's. `state` NULL: nothing is known of addresses.
 */
enum anyflash_status af_proof_proved_wheels_find(struct af_state *state, const char *from,
                                                 const struct af_machine *machine,
                                                 const struct af_catalog *catalog,
                                                 const struct af_fit_options *options,
                                                 struct af_arena *arena,
                                                 const struct af_proved_wheel **known_out,
                                                 size_t *count_out, struct anyflash_error *err);

#endif
