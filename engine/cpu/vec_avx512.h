/*
 * vec_avx512.h: the vector functions that the kernel templates use, for AVX-512
 * (F, BW, DQ, VL). kernels_LEVEL.c of other instruction sets define
 * the same functions.
 *
 * A vec is AF_LANES floats. Memory passed to vec_load and vec_store is aligned
 * to the vector; vec_loadu and vec_storeu accept any address.
 */
#ifndef AF_ENGINE_CPU_VEC_AVX512_H
#define AF_ENGINE_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/cpu/unroll.h"

#define AF_LANES 16

typedef __m512 vec;

AF_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

AF_INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

AF_INLINE vec vec_load(const float *p)
{
    return _mm512_load_ps(p);
}

AF_INLINE vec vec_loadu(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* Loads the first `count` lanes from p, the others 0; reads nothing beyond. */
AF_INLINE vec vec_load_some(const float *p, int count)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1u), p);
}

/* As vec_loadu and vec_load_some, from f16. */
AF_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

AF_INLINE vec vec_load_some_f16(const uint16_t *p, int count)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), p));
}

/* As vec_loadu and vec_load_some, from bf16. */
AF_INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return (vec)_mm512_slli_epi32(wide, 16);
}

AF_INLINE vec vec_load_some_bf16(const uint16_t *p, int count)
{
    __m256i some = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), p);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(some), 16);
}

AF_INLINE void vec_store(float *p, vec x)
{
    _mm512_store_ps(p, x);
}

AF_INLINE void vec_storeu(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

AF_INLINE void vec_store_some(float *p, vec x, int count)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1u), x);
}

/* Stores the first `count` lanes rounded to f16, to nearest even. */
AF_INLINE void vec_store_f16(uint16_t *p, vec x, int count)
{
    /* Without optimization gcc warns about its own _mm512_cvtps_ph(). */
    const __m256i halves =
        _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << count) - 1u), halves);
}

/* Stores the first `count` lanes rounded to bf16, to nearest even; NaN stays NaN. */
AF_INLINE void vec_store_bf16(uint16_t *p, vec x, int count)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << count) - 1u),
                             _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/* a * b + c */
AF_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a * b - c */
AF_INLINE vec vec_fms(vec a, vec b, vec c)
{
    return _mm512_fmsub_ps(a, b, c);
}

/* The larger; either one if one is NaN. */
AF_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

AF_INLINE float vec_sum(vec a)
{
    return _mm512_reduce_add_ps(a);
}

AF_INLINE float vec_top(vec a)
{
    return _mm512_reduce_max_ps(a);
}

/* Whether some lane of a is above that of b. */
AF_INLINE bool vec_any_above(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0;
}

/*
 * Sums across lanes, several at a time: four vectors to a quad, which holds
 * their sums in parts; then AF_LANES / 4 quads to a vector of AF_LANES sums.
 */
AF_INLINE vec vec_sum_quad(vec a, vec b, vec c, vec d)
{
    __m512d ab = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    __m512d cd = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    return _mm512_add_ps((vec)_mm512_unpacklo_pd(ab, cd), (vec)_mm512_unpackhi_pd(ab, cd));
}

AF_INLINE vec vec_join_quads(const vec *q)
{
    vec low = _mm512_add_ps(_mm512_shuffle_f32x4(q[0], q[1], 0x88),
                            _mm512_shuffle_f32x4(q[0], q[1], 0xdd));
    vec high = _mm512_add_ps(_mm512_shuffle_f32x4(q[2], q[3], 0x88),
                             _mm512_shuffle_f32x4(q[2], q[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88),
                         _mm512_shuffle_f32x4(low, high, 0xdd));
}

/* Broadcasts two words to all pairs of lanes. */
AF_INLINE vec vec_set_two(const void *words)
{
    double bits;
    memcpy(&bits, words, sizeof bits);
    return (vec)_mm512_set1_pd(bits);
}

/*
 * c[j] holds sums of key j for eight rows, each in two lanes side by side: rows 0, 4, 1, 5, 2,
 * 6, 3, 7. Stores the AF_LANES sums of row r at s + r * stride.
 */
AF_INLINE void vec_store_eight(const vec c[AF_LANES], float *s, int64_t stride)
{
    vec pairs[8];
    AF_UNROLL
    for (int j = 0; j < 8; j++)
        pairs[j] = _mm512_add_ps(_mm512_shuffle_ps(c[2 * j], c[2 * j + 1], 0x88),
                                 _mm512_shuffle_ps(c[2 * j], c[2 * j + 1], 0xdd));
    AF_UNROLL
    for (int half = 0; half < 2; half++) {
        vec q[4]; /* four rows, four keys each */
        AF_UNROLL
        for (int j = 0; j < 4; j++)
            q[j] = half == 0 ? _mm512_shuffle_ps(pairs[2 * j], pairs[2 * j + 1], 0x88)
                             : _mm512_shuffle_ps(pairs[2 * j], pairs[2 * j + 1], 0xdd);
        const vec a = _mm512_shuffle_f32x4(q[0], q[1], 0x44);
        const vec b = _mm512_shuffle_f32x4(q[2], q[3], 0x44);
        const vec x = _mm512_shuffle_f32x4(q[0], q[1], 0xee);
        const vec y = _mm512_shuffle_f32x4(q[2], q[3], 0xee);
        float *to = s + half * 4 * stride;
        vec_store(to, _mm512_shuffle_f32x4(a, b, 0x88));
        vec_store(to + stride, _mm512_shuffle_f32x4(a, b, 0xdd));
        vec_store(to + 2 * stride, _mm512_shuffle_f32x4(x, y, 0x88));
        vec_store(to + 3 * stride, _mm512_shuffle_f32x4(x, y, 0xdd));
    }
}

/* -infinity where `mark` is set, else x, whatever x is. */
AF_INLINE vec vec_hide(vec x, vec mark)
{
    __mmask16 hidden = _mm512_cmp_ps_mask(mark, _mm512_set1_ps(-__builtin_inff()), _CMP_EQ_OQ);
    return _mm512_mask_mov_ps(x, hidden, mark);
}

/* x in lanes with first <= key < end, else `other`. */
AF_INLINE vec vec_between(vec x, int32_t key, const int32_t *first, const int32_t *end,
                          vec other)
{
    __m512i k = _mm512_set1_epi32(key);
    __mmask16 inside = _mm512_cmple_epi32_mask(_mm512_load_si512(first), k);
    inside = _mm512_mask_cmplt_epi32_mask(inside, k, _mm512_load_si512(end));
    return _mm512_mask_mov_ps(other, inside, x);
}

/*
 * 2^x, relative error below 1.5e-7, 0 for very negative x, NaN for NaN, exactly
 * 1 for 0: old sums are multiplied by 2^0 once a block of keys. The fraction in
 * [0, 1) by VREDUCEPS, a minimax polynomial of degree 5, the integer part by
 * VSCALEFPS.
 */
AF_INLINE vec vec_exp2(vec x)
{
    vec f = _mm512_reduce_ps(x, 1 | 8);
    vec p = vec_set(0.00186713005f);
    p = vec_fma(p, f, vec_set(0.00901703071f));
    p = vec_fma(p, f, vec_set(0.0557999127f));
    p = vec_fma(p, f, vec_set(0.240164444f));
    p = vec_fma(p, f, vec_set(0.693151295f));
    p = vec_fma(p, f, vec_set(1.0f));
    return _mm512_scalef_ps(p, x);
}

AF_INLINE vec vec_abs(vec x)
{
    return _mm512_abs_ps(x);
}

/* a if |x| < bound, else b. */
AF_INLINE vec vec_where_small(vec x, float bound, vec a, vec b)
{
    __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(x), vec_set(bound), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(b, small, a);
}

/* Transposes 16 vectors as a 16 by 16 matrix, in place. */
AF_INLINE void vec_transpose(vec r[AF_LANES])
{
    __m512 t[16];
    AF_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    AF_UNROLL
    for (int i = 0; i < 16; i += 4) {
        __m512d a = (__m512d)t[i], b = (__m512d)t[i + 2];
        __m512d c = (__m512d)t[i + 1], d = (__m512d)t[i + 3];
        r[i] = (__m512)_mm512_unpacklo_pd(a, b);
        r[i + 1] = (__m512)_mm512_unpackhi_pd(a, b);
        r[i + 2] = (__m512)_mm512_unpacklo_pd(c, d);
        r[i + 3] = (__m512)_mm512_unpackhi_pd(c, d);
    }
    AF_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    AF_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#endif
