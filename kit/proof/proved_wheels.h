/*
 * proved_wheels.h: proves the wheels of the catalog whose bytes are on this machine or were
 * read before. The choice of a wheel uses the results (fit/fit.h). Uses no network.
 */
#ifndef AF_KIT_PROOF_PROVED_WHEELS_H
#define AF_KIT_PROOF_PROVED_WHEELS_H

#include "kit/fit/fit.h"
#include "kit/system/state.h"

#define AF_PROOF_PROVED_WHEELS_MAX 16u

/*
 * Proves wheels of `catalog` that `options` ask for, each with the torch of the environment. A
 * wheel is proved if a proof could change its verdict on `machine`, which must be this machine,
 * and if its file is in the folder `from` (NULL: none) or its address was inspected before. At
 * most AF_PROOF_PROVED_WHEELS_MAX wheels are proved, best ranked first. Wheels that cannot be
 * read are skipped. The list and its texts are in the arena; the wheels belong to the catalog.
 * `state` NULL: no address was inspected.
 */
enum anyflash_status af_proof_proved_wheels_find(struct af_state *state, const char *from,
                                                 const struct af_machine *machine,
                                                 const struct af_catalog *catalog,
                                                 const struct af_fit_options *options,
                                                 struct af_arena *arena,
                                                 const struct af_proved_wheel **known_out,
                                                 size_t *count_out, struct anyflash_error *err);

#endif
