/*
 * kernels.h: every CPU kernel by name; the manifest is in manifest.c.
 */
#ifndef AF_ENGINE_CPU_KERNELS_H
#define AF_ENGINE_CPU_KERNELS_H

#include "engine/attn/backward.h"

#define AF_FEATURES_ALL UINT32_MAX

/* The decode kernels take tasks of at most this many rows. */
#define AF_DECODE_ROWS_MAX 16

/* Forward tasks have at most this many tiles: rows_max is their rows. */
#define AF_TILES_MAX 64

extern const struct af_kernel af_fwd_f32__scalar_q12k2;
extern const struct af_kernel af_fwd_f16__scalar_q12k2;
extern const struct af_kernel af_fwd_bf16__scalar_q12k2;
extern const struct af_kernel af_dec_f32__scalar_r16;
extern const struct af_kernel af_dec_f16__scalar_r16;
extern const struct af_kernel af_dec_bf16__scalar_r16;

extern const struct af_kernel af_fwd_f32__neon_q12k8;
extern const struct af_kernel af_fwd_f16__neon_q12k8;
extern const struct af_kernel af_fwd_bf16__neon_q12k8;
extern const struct af_kernel af_dec_f32__neon_r16;
extern const struct af_kernel af_dec_f16__neon_r16;
extern const struct af_kernel af_dec_bf16__neon_r16;

extern const struct af_kernel af_fwd_f32__avx2_q24k4;
extern const struct af_kernel af_fwd_f16__avx2_q24k4;
extern const struct af_kernel af_fwd_bf16__avx2_q24k4;
extern const struct af_kernel af_dec_f32__avx2_r16;
extern const struct af_kernel af_dec_f16__avx2_r16;
extern const struct af_kernel af_dec_bf16__avx2_r16;

extern const struct af_kernel af_fwd_f32__avx512_q48k8;
extern const struct af_kernel af_fwd_f16__avx512_q48k8;
extern const struct af_kernel af_fwd_bf16__avx512_q48k8;
extern const struct af_kernel af_dec_f32__avx512_r16;
extern const struct af_kernel af_dec_f16__avx512_r16;
extern const struct af_kernel af_dec_bf16__avx512_r16;

extern const struct af_kernel af_fwd_bf16__avx512bf16_q48k8;
extern const struct af_kernel af_dec_bf16__avx512bf16_r16;

extern const struct af_backward_kernel af_bwd_f32__scalar_q12k2;
extern const struct af_backward_kernel af_bwd_f16__scalar_q12k2;
extern const struct af_backward_kernel af_bwd_bf16__scalar_q12k2;
extern const struct af_backward_kernel af_bwd_f32__neon_q12k8;
extern const struct af_backward_kernel af_bwd_f16__neon_q12k8;
extern const struct af_backward_kernel af_bwd_bf16__neon_q12k8;
extern const struct af_backward_kernel af_bwd_f32__avx2_q24k4;
extern const struct af_backward_kernel af_bwd_f16__avx2_q24k4;
extern const struct af_backward_kernel af_bwd_bf16__avx2_q24k4;
extern const struct af_backward_kernel af_bwd_f32__avx512_q48k8;
extern const struct af_backward_kernel af_bwd_f16__avx512_q48k8;
extern const struct af_backward_kernel af_bwd_bf16__avx512_q48k8;
extern const struct af_backward_kernel af_bwd_bf16__avx512bf16_q48k8;

#endif
