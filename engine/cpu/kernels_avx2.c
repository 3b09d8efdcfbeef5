/*
 * kernels_avx2.c: the kernels for AVX2 with FMA and F16C: 8 lanes, 16 registers. First the
 * functions of vec_avx512.h for it.
 *
 * Tiles: 24 rows (3 vectors) by 4 keys, in 12 registers; gradients of 6 keys by 16 columns,
 * in as many. In decode 8 registers hold sums.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX2
AF_INSTRUCTIONS_AVX2

#include "engine/cpu/unroll.h"

#define AF_LANES 8

typedef __m256 vec;

AF_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

AF_INLINE vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

AF_INLINE vec vec_load(const float *p)
{
    return _mm256_load_ps(p);
}

AF_INLINE vec vec_loadu(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* All bits set in the first `count` lanes. */
AF_INLINE __m256i vec_first_lanes(int count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

AF_INLINE vec vec_load_some(const float *p, int count)
{
    return _mm256_maskload_ps(p, vec_first_lanes(count));
}

AF_INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

/* The first `count` of 8 halves, the others 0. Inline code for this would be long. */
static __attribute__((noinline, unused)) __m128i vec_load_some_halves(const uint16_t *p,
                                                                      int count)
{
    uint16_t some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return _mm_loadu_si128((const void *)some);
}

AF_INLINE vec vec_load_some_f16(const uint16_t *p, int count)
{
    return _mm256_cvtph_ps(vec_load_some_halves(p, count));
}

AF_INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return (vec)_mm256_slli_epi32(wide, 16);
}

AF_INLINE vec vec_load_some_bf16(const uint16_t *p, int count)
{
    __m256i wide = _mm256_cvtepu16_epi32(vec_load_some_halves(p, count));
    return (vec)_mm256_slli_epi32(wide, 16);
}

AF_INLINE void vec_store(float *p, vec x)
{
    _mm256_store_ps(p, x);
}

AF_INLINE void vec_storeu(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

AF_INLINE void vec_store_some(float *p, vec x, int count)
{
    _mm256_maskstore_ps(p, vec_first_lanes(count), x);
}

/* Stores the first `count` of 8 halves. */
AF_INLINE void vec_store_halves(uint16_t *p, __m128i halves, int count)
{
    if (count == AF_LANES)
        _mm_storeu_si128((void *)p, halves);
    else
        memcpy(p, &halves, (size_t)count * sizeof *p);
}

AF_INLINE void vec_store_f16(uint16_t *p, vec x, int count)
{
    vec_store_halves(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                     count);
}

AF_INLINE void vec_store_bf16(uint16_t *p, vec x, int count)
{
    __m256i bits = (__m256i)x;
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    rounded =
        (__m256i)_mm256_blendv_ps((vec)rounded, (vec)quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    rounded = _mm256_srli_epi32(rounded, 16);
    vec_store_halves(
        p,
        _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)),
        count);
}

AF_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

AF_INLINE vec vec_fms(vec a, vec b, vec c)
{
    return _mm256_fmsub_ps(a, b, c);
}

AF_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

AF_INLINE vec vec_abs(vec x)
{
    return _mm256_andnot_ps(vec_set(-0.0f), x);
}

AF_INLINE float vec_sum(vec a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

AF_INLINE bool vec_any_above(vec a, vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0;
}

AF_INLINE float vec_top(vec a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

AF_INLINE vec vec_sum_quad(vec a, vec b, vec c, vec d)
{
    return _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
}

AF_INLINE vec vec_join_quads(const vec *q)
{
    return _mm256_add_ps(_mm256_permute2f128_ps(q[0], q[1], 0x20),
                         _mm256_permute2f128_ps(q[0], q[1], 0x31));
}

AF_INLINE vec vec_hide(vec x, vec mark)
{
    return _mm256_blendv_ps(x, mark,
                            _mm256_cmp_ps(mark, vec_set(-__builtin_inff()), _CMP_EQ_OQ));
}

AF_INLINE vec vec_between(vec x, int32_t key, const int32_t *first, const int32_t *end,
                          vec other)
{
    __m256i k = _mm256_set1_epi32(key);
    __m256i before = _mm256_cmpgt_epi32(_mm256_load_si256((const void *)first), k);
    __m256i inside = _mm256_cmpgt_epi32(_mm256_load_si256((const void *)end), k);
    return _mm256_blendv_ps(other, x, (vec)_mm256_andnot_si256(before, inside));
}

AF_INLINE vec vec_where_small(vec x, float bound, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(vec_abs(x), vec_set(bound), _CMP_LT_OQ));
}

/*
 * 2^x, relative error below 1.7e-7. The integer part is added to the exponent:
 * between -127, where the sum is exactly 0, and 128, where it is infinity. The
 * limits are the first operands of min and max, so that NaN stays NaN, also
 * after the sum: its conversion has no bits below the 24th.
 */
AF_INLINE vec vec_exp2(vec x)
{
    x = _mm256_min_ps(vec_set(128.0f), _mm256_max_ps(vec_set(-127.0f), x));
    __m256i n = _mm256_cvtps_epi32(x);
    vec f = _mm256_sub_ps(x, _mm256_cvtepi32_ps(n));
    vec p = vec_set(0.00132647263f);
    p = vec_fma(p, f, vec_set(0.00967151301f));
    p = vec_fma(p, f, vec_set(0.0555073375f));
    p = vec_fma(p, f, vec_set(0.240222421f));
    p = vec_fma(p, f, vec_set(0.693146978f));
    p = vec_fma(p, f, vec_set(1.0f));
    return (vec)_mm256_add_epi32((__m256i)p, _mm256_slli_epi32(n, 23));
}

/* Transposes 8 vectors as an 8 by 8 matrix, in place. */
AF_INLINE void vec_transpose(vec r[AF_LANES])
{
    vec t[8];
    AF_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    AF_UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    AF_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    AF_UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

#define AF_LEVEL avx2
#define AF_TILE q24k4
#define AF_NEEDS AF_CPU_AVX2
#define TILE_VECS 3
#define TILE_ROWS 4
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 2
#define DECODE_SUMS 8
#define DECODE_TILE_ROWS (sizeof(AF_ELEMENT) == 4 ? 8 : 18)
#define DECODE_ROW_KEYS (sizeof(AF_ELEMENT) == 4 ? 16 : 24)
#include "engine/cpu/float_kernels.h"

AF_INSTRUCTIONS_END
#endif
