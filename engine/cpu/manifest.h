/*
 * manifest.h: the list of the CPU kernels.
 */
#ifndef AF_ENGINE_CPU_MANIFEST_H
#define AF_ENGINE_CPU_MANIFEST_H

#include "engine/attn/kernel.h"

/* All kernels of this build, slowest first. Static storage. */
const struct af_kernel *const *af_kernels(size_t *count_out);

#endif
