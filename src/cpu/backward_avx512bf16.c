/*
 * backward_avx512bf16.c: bf16 backward by VDPBF16PS, in all five products.
 *
 * Pairs lie along the head size for scores and dP, along the keys for dQ, along
 * the rows for dV and dK. P and dS are rounded to bf16, sums are not.
 */
#include "attn/rows.h"
#include "cpu/vec_avx512.h"

#include "cpu/tanh.h"

#include "cpu/kernels.h"

/* One 32-bit word, in every lane. */
AF_INLINE vec vec_set_word(const void *word)
{
    float bits;
    memcpy(&bits, word, sizeof bits);
    return vec_set(bits);
}

/* c + a.b, a and b pairs of bf16 lane by lane. */
AF_INLINE vec vec_dot_pairs(vec a, vec b, vec c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)b, (__m512bh)a);
}

/* Rounds to bf16 and stores each; returns the pairs (even, odd) lane by lane. */
AF_INLINE vec vec_store_pair(float *to_even, float *to_odd, vec even, vec odd)
{
    static const uint16_t interleave[32] __attribute__((aligned(64))) = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm256_store_si256((void *)to_even, _mm512_castsi512_si256(both));
    _mm256_store_si256((void *)to_odd, _mm512_extracti64x4_epi64(both, 1));
    return (vec)_mm512_permutexvar_epi16(_mm512_load_si512(interleave), both);
}

/* 2^x to 8e-5 relative: enough for a value that is rounded to bf16. */
AF_INLINE vec vec_exp2_coarse(vec x)
{
    vec f = _mm512_reduce_ps(x, 1 | 8);
    vec p = vec_set(0.0780245032f);
    p = vec_fma(p, f, vec_set(0.22606721f));
    p = vec_fma(p, f, vec_set(0.695833507f));
    p = vec_fma(p, f, vec_set(0.999925223f));
    return _mm512_scalef_ps(p, x);
}

AF_INLINE vec load_some_bf16(const uint16_t *p, int count)
{
    __m256i some = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), p);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(some), 16);
}

#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define AF_PAIRS 1
#define AF_BACK_EXP2 vec_exp2_coarse
#define AF_FN(name) name##_bf16
#define AF_ELEMENT uint16_t
#define AF_DIRECT 1
#define AF_LOAD(p) load_some_bf16(p, 16)
#define AF_LOAD_SOME(p, n) load_some_bf16(p, n)
#define AF_ROUND(x) af_bf16_of_f32(x)
#include "cpu/tile.inc"

#include "cpu/backward.inc"

const struct af_backward_kernel af_bwd_bf16__avx512bf16_q48k8 = {
    .name = "af_bwd_bf16__avx512bf16_q48k8",
    .dtype = ANYFLASH_BF16,
    .needs = AF_CPU_AVX512BF16,
    .features = AF_FEATURES_ALL,
    .scratch_bytes = scratch_bytes_bf16,
    .run = run_bf16,
};
