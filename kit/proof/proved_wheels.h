/*
 * proved_wheels.h: from the proofs of a wheel's extensions to one conclusion about the wheel,
 * which the choice of a wheel uses (fit/fit.h).
 */
#ifndef AF_KIT_PROOF_PROVED_WHEELS_H
#define AF_KIT_PROOF_PROVED_WHEELS_H

#include "kit/fit/fit.h"
#include "kit/proof/prover.h"

struct af_proof_conclusion {
    /* NO if one of its extensions does not load or run; UNKNOWN if that is not known of one */
    enum af_answer loads;
    const char *reason;    /* of NO: "'a/b.so': 3 functions are missing"; else NULL */
    const char *built_for; /* "torch 2.7 or 2.8", from its bytes; NULL: not known */
    /* NO only because of the GPUs, or of libraries that are not installed */
    bool may_change;
};

/*
 * Concludes from `proofs`, one for each extension of the target. An extension that could not be
 * read, and a target without extensions, prove nothing. Texts are in the arena or borrowed from
 * the proofs.
 */
struct af_proof_conclusion af_proof_conclude(const struct af_inspect_target *target,
                                             const struct af_proof *proofs,
                                             struct af_arena *arena);

#define AF_PROOF_FOLDER_WHEELS_MAX 16u

/*
 * Proves the wheels of `catalog` that `options` ask for and whose files are in the folder
 * `from`, each with the torch of `machine`, which must be this machine. Of those that a proof
 * could change the verdict of, at most AF_PROOF_FOLDER_WHEELS_MAX are proved, best ranked
 * first. Wheels that cannot be read prove nothing. The list and its texts are in the arena; the
 * wheels belong to the catalog.
 */
enum anyflash_status af_proof_folder_wheels(const char *from, const struct af_machine *machine,
                                            const struct af_catalog *catalog,
                                            const struct af_fit_options *options,
                                            struct af_arena *arena,
                                            struct af_proved_wheel **known_out,
                                            size_t *count_out, struct anyflash_error *err);

#endif
