/*
 * kernels_scalar.c: the kernels for any machine, in C. First the functions of vec_avx512.h: 4
 * lanes in a compiler vector type, which maps to the machine's instructions.
 *
 * Tiles: 12 rows (3 vectors) by 2 keys; gradients of 3 keys by 8 columns: 6 accumulators
 * each. In decode 8 registers hold sums, and all types share one kernel for floats: rows of
 * f16, bf16 and fp8 are converted once a block, because without an instruction for it
 * conversion takes long.
 */
#include "engine/attn/convert.h"
#include "engine/base/instructions.h"
#include "engine/cpu/unroll.h"

#define AF_LANES 4

typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_bits __attribute__((vector_size(16)));

AF_INLINE vec vec_set(float x)
{
    return (vec){x, x, x, x};
}

AF_INLINE vec vec_zero(void)
{
    return vec_set(0);
}

AF_INLINE vec vec_loadu(const float *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}

AF_INLINE vec vec_load(const float *p)
{
    return vec_loadu((const float *)__builtin_assume_aligned(p, 16));
}

AF_INLINE vec vec_load_some(const float *p, int count)
{
    vec x = vec_zero();
    memcpy(&x, p, (size_t)count * sizeof *p);
    return x;
}

AF_INLINE vec vec_load_f16(const uint16_t *p)
{
    return (vec){af_f32_of_f16(p[0]), af_f32_of_f16(p[1]), af_f32_of_f16(p[2]),
                 af_f32_of_f16(p[3])};
}

AF_INLINE vec vec_load_some_f16(const uint16_t *p, int count)
{
    uint16_t some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return vec_load_f16(some);
}

AF_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec){af_f32_of_bf16(p[0]), af_f32_of_bf16(p[1]), af_f32_of_bf16(p[2]),
                 af_f32_of_bf16(p[3])};
}

AF_INLINE vec vec_load_some_bf16(const uint16_t *p, int count)
{
    uint16_t some[AF_LANES] = {0};
    memcpy(some, p, (size_t)count * sizeof *p);
    return vec_load_bf16(some);
}

AF_INLINE void vec_storeu(float *p, vec x)
{
    memcpy(p, &x, sizeof x);
}

AF_INLINE void vec_store(float *p, vec x)
{
    vec_storeu((float *)__builtin_assume_aligned(p, 16), x);
}

AF_INLINE void vec_store_some(float *p, vec x, int count)
{
    memcpy(p, &x, (size_t)count * sizeof *p);
}

AF_INLINE void vec_store_f16(uint16_t *p, vec x, int count)
{
    for (int i = 0; i < count; i++)
        p[i] = af_f16_of_f32(x[i]);
}

AF_INLINE void vec_store_bf16(uint16_t *p, vec x, int count)
{
    for (int i = 0; i < count; i++)
        p[i] = af_bf16_of_f32(x[i]);
}

AF_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

AF_INLINE vec vec_fms(vec a, vec b, vec c)
{
    return a * b - c;
}

/* a where `bits` are set, else b. */
AF_INLINE vec vec_select(vec_bits bits, vec a, vec b)
{
    return (vec)((bits & (vec_bits)a) | (~bits & (vec_bits)b));
}

AF_INLINE vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

AF_INLINE vec vec_abs(vec x)
{
    return (vec)((vec_bits)x & 0x7FFFFFFF);
}

AF_INLINE float vec_sum(vec a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

AF_INLINE bool vec_any_above(vec a, vec b)
{
    return a[0] > b[0] || a[1] > b[1] || a[2] > b[2] || a[3] > b[3];
}

AF_INLINE float vec_top(vec a)
{
    float low = a[0] > a[1] ? a[0] : a[1];
    float high = a[2] > a[3] ? a[2] : a[3];
    return low > high ? low : high;
}

AF_INLINE vec vec_sum_quad(vec a, vec b, vec c, vec d)
{
    return (vec){a[0], b[0], c[0], d[0]} + (vec){a[1], b[1], c[1], d[1]} +
           ((vec){a[2], b[2], c[2], d[2]} + (vec){a[3], b[3], c[3], d[3]});
}

AF_INLINE vec vec_join_quads(const vec *q)
{
    return q[0];
}

AF_INLINE vec vec_hide(vec x, vec mark)
{
    return vec_select(mark == vec_set(-__builtin_inff()), mark, x);
}

AF_INLINE vec vec_between(vec x, int32_t key, const int32_t *first, const int32_t *end,
                          vec other)
{
    vec_bits k = {key, key, key, key}, f, e;
    memcpy(&f, first, sizeof f);
    memcpy(&e, end, sizeof e);
    return vec_select((f <= k) & (k < e), x, other);
}

AF_INLINE vec vec_where_small(vec x, float bound, vec a, vec b)
{
    return vec_select(vec_abs(x) < vec_set(bound), a, b);
}

/*
 * 2^x as in kernels_avx2.c. Adding 1.5 * 2^23 rounds to an integer and leaves it in
 * the lowest bits.
 */
AF_INLINE vec vec_exp2(vec x)
{
    const vec magic = vec_set(12582912.0f), low = vec_set(-127.0f), high = vec_set(128.0f);
    vec y = vec_select(x < low, low, vec_select(x > high, high, x));
    vec rounded = y + magic;
    vec f = y - (rounded - magic);
    vec p = vec_set(0.00132647263f);
    p = p * f + 0.00967151301f;
    p = p * f + 0.0555073375f;
    p = p * f + 0.240222421f;
    p = p * f + 0.693146978f;
    p = p * f + 1.0f;
    typedef uint32_t unsigned_bits __attribute__((vector_size(16)));
    unsigned_bits sum = (unsigned_bits)p + ((unsigned_bits)rounded << 23);
    return vec_select(x == x, (vec)sum, x);
}

/* Transposes 4 vectors as a 4 by 4 matrix, in place. */
AF_INLINE void vec_transpose(vec r[AF_LANES])
{
    vec a = r[0], b = r[1], c = r[2], d = r[3];
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++)
        r[i] = (vec){a[i], b[i], c[i], d[i]};
}

#define AF_LEVEL scalar
#define AF_TILE q12k2
#define AF_NEEDS AF_CPU_BASE
#define TILE_VECS 3
#define TILE_ROWS 2
#define GRADIENT_ROWS 3
#define GRADIENT_VECS 2
#include "engine/cpu/float_kernels.h"
#undef AF_ELEMENT
#undef AF_STORED
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_WIDEN
#undef AF_WIDE_UNIT
#undef AF_WIDE_DTYPE

#define DECODE_SUMS 8
#define DECODE_TILE_ROWS 12
#define DECODE_ROW_KEYS 8
#define DECODE_SMALL 1
#define AF_FN(name) AF_FUNCTION(name, dec, any)
#define AF_ELEMENT float
#define AF_STORED float
#define AF_STORED_BYTES(problem) ((int64_t)(problem)->key_bytes)
#define AF_LOAD vec_loadu
#define AF_LOAD_SOME vec_load_some
#define AF_WIDEN(dtype, from, count, to)                                                       \
    af_row_floats((enum anyflash_dtype)(dtype), from, count, to)
#define AF_WIDE_UNIT(dtype) 1.0f
#define AF_WIDE_DTYPE ANYFLASH_F32
#include "engine/cpu/decode_template.h"
AF_DECODE_ROW(f32, ANYFLASH_F32, false);
AF_DECODE_ROW(f16, ANYFLASH_F16, false);
AF_DECODE_ROW(bf16, ANYFLASH_BF16, false);
AF_DECODE_ROW(f8, 0, true);
