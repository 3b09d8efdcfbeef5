/*
 * kernels.h: every CPU kernel by name; the manifest is in manifest.c.
 */
#ifndef AF_CPU_KERNELS_H
#define AF_CPU_KERNELS_H

#include "attn/kernel.h"

#define AF_FEATURES_ALL UINT32_MAX

extern const struct af_kernel af_fwd_f32__avx512_q48k8;
extern const struct af_kernel af_fwd_f16__avx512_q48k8;
extern const struct af_kernel af_fwd_bf16__avx512bf16_q48k8;

#endif
