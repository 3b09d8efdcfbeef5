/*
 * vec_avx512bf16.h: adds functions for VDPBF16PS to those of vec_avx512.h. A
 * vector of pairs has two bf16 in each lane.
 */
#ifndef AF_ENGINE_CPU_VEC_AVX512BF16_H
#define AF_ENGINE_CPU_VEC_AVX512BF16_H

#include <string.h>

#include "engine/cpu/vec_avx512.h"

/* Broadcasts one 32-bit word to every lane. */
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

/*
 * Loads 2 * AF_LANES elements as pairs, or `count`: then the others are 0 and
 * nothing is read beyond.
 */
AF_INLINE vec vec_load_pairs(const uint16_t *p)
{
    return _mm512_loadu_ps((const void *)p);
}

AF_INLINE vec vec_load_some_pairs(const uint16_t *p, int count)
{
    return (vec)_mm512_maskz_loadu_epi16((__mmask32)((1ull << count) - 1u), p);
}

/* Pairs (a, b) of the lower and of the upper four of each eight elements of a and b. */
AF_INLINE vec vec_pair_low(vec a, vec b)
{
    return (vec)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b);
}

AF_INLINE vec vec_pair_high(vec a, vec b)
{
    return (vec)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}

/* Stores x rounded to AF_LANES bf16 at p, which is aligned to 32 bytes. */
AF_INLINE void vec_store_rounded(void *p, vec x)
{
    _mm256_store_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
}

/* Stores the first `count` lanes of x, rounded to bf16, at p; numbers below 2^-126 become 0. */
AF_INLINE void vec_store_some_rounded(uint16_t *p, vec x, int count)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << count) - 1u),
                             (__m256i)_mm512_cvtneps_pbh(x));
}

/* Lane i: elements i and i + AF_LANES, a pair. */
AF_INLINE vec vec_interleave(__m512i elements)
{
    static const uint16_t order[32] __attribute__((aligned(64))) = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (vec)_mm512_permutexvar_epi16(_mm512_load_si512(order), elements);
}

/* Lane i: even[i] in the lower half, odd[i] in the upper, rounded to bf16. */
AF_INLINE vec vec_pair(vec even, vec odd)
{
    return vec_interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* Rounds to bf16 and stores each; returns the pairs (even, odd) lane by lane. */
AF_INLINE vec vec_store_pair(float *to_even, float *to_odd, vec even, vec odd)
{
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm256_store_si256((void *)to_even, _mm512_castsi512_si256(both));
    _mm256_store_si256((void *)to_odd, _mm512_extracti64x4_epi64(both, 1));
    return vec_interleave(both);
}

/*
 * 2^x to 9e-5 relative, exactly 1 for 0: accurate enough for a value that is
 * rounded to bf16.
 */
AF_INLINE vec vec_exp2_coarse(vec x)
{
    vec f = _mm512_reduce_ps(x, 1 | 8);
    vec p = vec_set(0.0770670399f);
    p = vec_fma(p, f, vec_set(0.227644995f));
    p = vec_fma(p, f, vec_set(0.695116758f));
    p = vec_fma(p, f, vec_set(1.0f));
    return _mm512_scalef_ps(p, x);
}

#endif
