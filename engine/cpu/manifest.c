/*
 * manifest.c: the CPU kernels of this build. A kernel without a row here cannot
 * run. AF_HAVE_x is set by the build for each instruction set that the compiler
 * and the architecture have.
 */
#include "engine/cpu/kernels.h"

static const struct af_kernel *const kernels[] = {
    &af_fwd_f32__scalar_q12k2,      &af_fwd_f16__scalar_q12k2,    &af_fwd_bf16__scalar_q12k2,
    &af_dec_f32__scalar_r16,        &af_dec_f16__scalar_r16,      &af_dec_bf16__scalar_r16,
#ifdef AF_HAVE_NEON
    &af_fwd_f32__neon_q12k8,        &af_fwd_f16__neon_q12k8,      &af_fwd_bf16__neon_q12k8,
    &af_dec_f32__neon_r16,          &af_dec_f16__neon_r16,        &af_dec_bf16__neon_r16,
#endif
#ifdef AF_HAVE_AVX2
    &af_fwd_f32__avx2_q24k4,        &af_fwd_f16__avx2_q24k4,      &af_fwd_bf16__avx2_q24k4,
    &af_dec_f32__avx2_r16,          &af_dec_f16__avx2_r16,        &af_dec_bf16__avx2_r16,
#endif
#ifdef AF_HAVE_AVX512
    &af_fwd_f32__avx512_q48k8,      &af_fwd_f16__avx512_q48k8,    &af_fwd_bf16__avx512_q48k8,
    &af_dec_f32__avx512_r16,        &af_dec_f16__avx512_r16,      &af_dec_bf16__avx512_r16,
#endif
#ifdef AF_HAVE_AVX512BF16
    &af_fwd_bf16__avx512bf16_q48k8, &af_dec_bf16__avx512bf16_r16,
#endif
};

const struct af_kernel *const *af_kernels(size_t *count_out)
{
    *count_out = AF_COUNT(kernels);
    return kernels;
}

static const struct af_backward_kernel *const backward_kernels[] = {
    &af_bwd_f32__scalar_q12k2,      &af_bwd_f16__scalar_q12k2, &af_bwd_bf16__scalar_q12k2,
#ifdef AF_HAVE_NEON
    &af_bwd_f32__neon_q12k8,        &af_bwd_f16__neon_q12k8,   &af_bwd_bf16__neon_q12k8,
#endif
#ifdef AF_HAVE_AVX2
    &af_bwd_f32__avx2_q24k4,        &af_bwd_f16__avx2_q24k4,   &af_bwd_bf16__avx2_q24k4,
#endif
#ifdef AF_HAVE_AVX512
    &af_bwd_f32__avx512_q48k8,      &af_bwd_f16__avx512_q48k8, &af_bwd_bf16__avx512_q48k8,
#endif
#ifdef AF_HAVE_AVX512BF16
    &af_bwd_bf16__avx512bf16_q48k8,
#endif
};

const struct af_backward_kernel *const *af_backward_kernels(size_t *count_out)
{
    *count_out = AF_COUNT(backward_kernels);
    return backward_kernels;
}
