/*
 * backward_avx512.c: the backward kernels for AVX-512.
 *
 * Tile: 48 rows (3 vectors) by 8 keys; gradients of 6 keys by 64 columns: 24
 * accumulators of 32 registers each. f16, and bf16 without its dot product,
 * are converted to f32.
 */
#include "attn/rows.h"
#include "cpu/vec_avx512.h"

#include "cpu/tanh.h"

#include "cpu/kernels.h"

#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define AF_PAIRS 0
#define AF_BACK_EXP2 vec_exp2

/* The first `count` elements of f16 or bf16 as floats. */
AF_INLINE vec load_some_f16(const uint16_t *p, int count)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), p));
}

AF_INLINE vec load_some_bf16(const uint16_t *p, int count)
{
    __m256i some = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), p);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(some), 16);
}

#define AF_FN(name) name##_f32
#define AF_ELEMENT float
#define AF_DIRECT 1
#define AF_LOAD(p) vec_loadu(p)
#define AF_LOAD_SOME(p, n) vec_load_some(p, n)
#define AF_ROUND(x) (x)
#include "cpu/tile.inc"

#include "cpu/backward.inc"

const struct af_backward_kernel af_bwd_f32__avx512_q48k8 = {
    .name = "af_bwd_f32__avx512_q48k8",
    .dtype = ANYFLASH_F32,
    .needs = AF_CPU_AVX512,
    .features = AF_FEATURES_ALL,
    .scratch_bytes = scratch_bytes_f32,
    .run = run_f32,
};

#undef AF_FN
#undef AF_ELEMENT
#undef AF_DIRECT
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_ROUND
#define AF_ELEMENT uint16_t
#define AF_DIRECT 0

#define AF_FN(name) name##_f16
#define AF_LOAD(p) load_some_f16(p, 16)
#define AF_LOAD_SOME(p, n) load_some_f16(p, n)
#define AF_ROUND(x) af_f16_of_f32(x)
#include "cpu/tile.inc"

#include "cpu/backward.inc"

const struct af_backward_kernel af_bwd_f16__avx512_q48k8 = {
    .name = "af_bwd_f16__avx512_q48k8",
    .dtype = ANYFLASH_F16,
    .needs = AF_CPU_AVX512,
    .features = AF_FEATURES_ALL,
    .scratch_bytes = scratch_bytes_f16,
    .run = run_f16,
};

#undef AF_FN
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_ROUND

#define AF_FN(name) name##_bf16
#define AF_LOAD(p) load_some_bf16(p, 16)
#define AF_LOAD_SOME(p, n) load_some_bf16(p, n)
#define AF_ROUND(x) af_bf16_of_f32(x)
#include "cpu/tile.inc"

#include "cpu/backward.inc"

const struct af_backward_kernel af_bwd_bf16__avx512_q48k8 = {
    .name = "af_bwd_bf16__avx512_q48k8",
    .dtype = ANYFLASH_BF16,
    .needs = AF_CPU_AVX512,
    .features = AF_FEATURES_ALL,
    .scratch_bytes = scratch_bytes_bf16,
    .run = run_bf16,
};
