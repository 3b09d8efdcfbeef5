/*
 * amd_target.h: what is known about an LLVM target of AMD's GPUs: one row of
 * data/amd_targets.tsv, where the sources are.
 */
#ifndef AF_KIT_FIT_AMD_TARGET_H
#define AF_KIT_FIT_AMD_TARGET_H

#include <stdbool.h>

/* Whether torch has FlashAttention for it. */
enum af_amd_kernels {
    AF_AMD_KERNELS_UNKNOWN,
    AF_AMD_KERNELS_NONE,
    AF_AMD_KERNELS_EXPERIMENTAL, /* only if TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL is set */
    AF_AMD_KERNELS_FULL
};

/* flash-attn's own backend for it. */
enum af_amd_backend { AF_AMD_BACKEND_NONE, AF_AMD_BACKEND_CK, AF_AMD_BACKEND_TRITON };

struct af_amd_target {
    enum af_amd_kernels kernels;
    enum af_amd_backend backend;
    bool has_aiter; /* AMD's library of kernels supports it in full */
};

/* `target` is like "gfx942"; all is 0 for one that no row has. */
struct af_amd_target af_amd_target_of(const char *target);

#endif
