/*
 * kernels_neon.c: the kernels for AArch64: 4 lanes, 32 registers. First the functions of
 * vec_avx512.h for it.
 *
 * Tiles: 12 rows (3 vectors) by 8 keys, in 24 registers; gradients of 6 keys by 16 columns,
 * in as many. In decode 16 registers hold sums.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_NEON

#include "engine/cpu/unroll.h"

#define AF_LANES 4

typedef float32x4_t vec;

AF_INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}

AF_INLINE vec vec_zero(void)
{
    return vdupq_n_f32(0);
}

AF_INLINE vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

AF_INLINE vec vec_loadu(const float *p)
{
    return vld1q_f32(p);
}

AF_INLINE vec vec_load_some(const float *p, int count)
{
    float some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return vld1q_f32(some);
}

AF_INLINE vec vec_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

AF_INLINE vec vec_load_some_f16(const uint16_t *p, int count)
{
    uint16_t some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return vec_load_f16(some);
}

AF_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

AF_INLINE vec vec_load_some_bf16(const uint16_t *p, int count)
{
    uint16_t some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return vec_load_bf16(some);
}

AF_INLINE void vec_store(float *p, vec x)
{
    vst1q_f32(p, x);
}

AF_INLINE void vec_storeu(float *p, vec x)
{
    vst1q_f32(p, x);
}

AF_INLINE void vec_store_some(float *p, vec x, int count)
{
    float all[AF_LANES];
    vst1q_f32(all, x);
    memcpy(p, all, (size_t)count * sizeof *p);
}

AF_INLINE void vec_store_halves(uint16_t *p, uint16x4_t halves, int count)
{
    uint16_t all[AF_LANES];
    vst1_u16(all, halves);
    memcpy(p, all, (size_t)count * sizeof *p);
}

AF_INLINE void vec_store_f16(uint16_t *p, vec x, int count)
{
    vec_store_halves(p, vreinterpret_u16_f16(vcvt_f16_f32(x)), count);
}

AF_INLINE void vec_store_bf16(uint16_t *p, vec x, int count)
{
    uint32x4_t bits = vreinterpretq_u32_f32(x);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vec_store_halves(p, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16), count);
}

AF_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

AF_INLINE vec vec_fms(vec a, vec b, vec c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}

AF_INLINE vec vec_max(vec a, vec b)
{
    return vmaxq_f32(a, b);
}

AF_INLINE vec vec_abs(vec x)
{
    return vabsq_f32(x);
}

AF_INLINE float vec_sum(vec a)
{
    return vaddvq_f32(a);
}

AF_INLINE bool vec_any_above(vec a, vec b)
{
    return vmaxvq_u32(vcgtq_f32(a, b)) != 0;
}

AF_INLINE float vec_top(vec a)
{
    return vmaxvq_f32(a);
}

AF_INLINE vec vec_sum_quad(vec a, vec b, vec c, vec d)
{
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}

AF_INLINE vec vec_join_quads(const vec *q)
{
    return q[0];
}

AF_INLINE vec vec_hide(vec x, vec mark)
{
    return vbslq_f32(vceqq_f32(mark, vec_set(-__builtin_inff())), mark, x);
}

AF_INLINE vec vec_between(vec x, int32_t key, const int32_t *first, const int32_t *end,
                          vec other)
{
    int32x4_t k = vdupq_n_s32(key);
    uint32x4_t inside = vandq_u32(vcleq_s32(vld1q_s32(first), k), vcltq_s32(k, vld1q_s32(end)));
    return vbslq_f32(inside, x, other);
}

AF_INLINE vec vec_where_small(vec x, float bound, vec a, vec b)
{
    return vbslq_f32(vcaltq_f32(x, vec_set(bound)), a, b);
}

/* 2^x as in kernels_avx2.c; here NaN converts to 0, and min and max keep it. */
AF_INLINE vec vec_exp2(vec x)
{
    x = vminq_f32(vmaxq_f32(x, vec_set(-127.0f)), vec_set(128.0f));
    int32x4_t n = vcvtnq_s32_f32(x);
    vec f = vsubq_f32(x, vcvtq_f32_s32(n));
    vec p = vec_set(0.00132647263f);
    p = vec_fma(p, f, vec_set(0.00967151301f));
    p = vec_fma(p, f, vec_set(0.0555073375f));
    p = vec_fma(p, f, vec_set(0.240222421f));
    p = vec_fma(p, f, vec_set(0.693146978f));
    p = vec_fma(p, f, vec_set(1.0f));
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(n, 23)));
}

/* Transposes 4 vectors as a 4 by 4 matrix, in place. */
AF_INLINE void vec_transpose(vec r[AF_LANES])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

#define AF_LEVEL neon
#define AF_TILE q12k8
#define AF_NEEDS AF_CPU_NEON
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define DECODE_SUMS 16
#define DECODE_TILE_ROWS 20
#define DECODE_ROW_KEYS 20
#include "engine/cpu/float_kernels.h"

#endif
