/*
 * environment_hash.h: what a proof that a wheel loads takes from an environment, as hashes. A
 * stored proof (system/state_proofs.h) holds as long as its hashes are still the same.
 */
#ifndef AF_KIT_PROBE_ENVIRONMENT_HASH_H
#define AF_KIT_PROBE_ENVIRONMENT_HASH_H

#include "kit/base/sha256.h"
#include "kit/machine/machine.h"

struct af_environment_hash {
    /*
     * What decides whether a wheel loads: this program's version; system, C and C++ library;
     * the interpreter; torch, with the size and time of its libraries; its CUDA runtime.
     */
    char loading[AF_SHA256_HEX_BYTES];
    /*
     * What only some answers depend on: GPUs and driver, and where libraries that are missing
     * could appear (site-packages, ld.so.cache).
     */
    char surroundings[AF_SHA256_HEX_BYTES];
};

/*
 * Hashes the environment of `machine`, which must have been probed from this system. Looks at
 * the status of a few files and reads none.
 */
void af_probe_environment_hash(const struct af_machine *machine,
                               struct af_environment_hash *out);

#endif
