/*
 * convert.h: the sizes of element types, and the conversion of single f16, bf16,
 * fp8 and f32 numbers with integer arithmetic, with the same result on every
 * machine. Rounds to nearest even; NaN becomes a quiet NaN with the upper bits of
 * its payload. Kernels convert whole vectors; these functions are the reference
 * for their results and are used on slow paths.
 */
#ifndef AF_ENGINE_ATTN_CONVERT_H
#define AF_ENGINE_ATTN_CONVERT_H

#include <string.h>

#include "engine/base/base.h"

/* Whether it is one of the fp8 types. */
static inline bool af_dtype_is_f8(int32_t dtype)
{
    return dtype == ANYFLASH_F8_E4M3 || dtype == ANYFLASH_F8_E5M2;
}

/* Bytes of an element of a known type. */
static inline size_t af_dtype_bytes(int32_t dtype)
{
    return dtype == ANYFLASH_F32 ? 4 : dtype == ANYFLASH_BOOL || af_dtype_is_f8(dtype) ? 1 : 2;
}

static inline uint32_t af_f32_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float af_f32_of_bits(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline float af_f32_of_bf16(uint16_t bits)
{
    return af_f32_of_bits((uint32_t)bits << 16);
}

static inline uint16_t af_bf16_of_f32(float number)
{
    uint32_t bits = af_f32_bits(number);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float af_f32_of_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude > 0x7c00u)
        return af_f32_of_bits(sign | 0x7fc00000u | magnitude << 13);
    if (magnitude == 0x7c00u)
        return af_f32_of_bits(sign | 0x7f800000u);
    if (magnitude < 0x400u) /* subnormal: units of 2^-24 */
        return af_f32_of_bits(sign | af_f32_bits((float)magnitude * 0x1p-24f));
    return af_f32_of_bits(sign | ((magnitude << 13) + 0x38000000u));
}

static inline uint16_t af_f16_of_f32(float number)
{
    uint32_t bits = af_f32_bits(number);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) /* subnormal: the last bit of 0.5f + x is 2^-24 */
        return (uint16_t)(sign | (af_f32_bits(af_f32_of_bits(magnitude) + 0.5f) - 0x3f000000u));
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

#define AF_F8_NAN 0x7fu

static inline float af_f32_of_f8(int32_t dtype, uint8_t bits)
{
    if (dtype == ANYFLASH_F8_E5M2)
        return af_f32_of_f16((uint16_t)(bits << 8));
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24, magnitude = bits & 0x7fu;
    if (magnitude == AF_F8_NAN)
        return af_f32_of_bits(sign | 0x7fc00000u);
    /* Exponents of an f16 are larger by 8. */
    return af_f32_of_bits(sign | af_f32_bits(af_f32_of_f16((uint16_t)(magnitude << 7)) * 256));
}

/* Finite numbers that are too large become the largest one; E4M3 has NaN for infinity. */
static inline uint8_t af_f8_of_f32(int32_t dtype, float number)
{
    const bool e4m3 = dtype == ANYFLASH_F8_E4M3;
    const uint32_t shift = e4m3 ? 20 : 21; /* of the mantissa */
    const uint32_t infinity = e4m3 ? AF_F8_NAN : 0x7c, largest = e4m3 ? 0x7e : 0x7b;
    const float last = e4m3 ? 0x1p14f : 0x1p7f; /* its last bit is that of a subnormal */
    uint32_t bits = af_f32_bits(number);
    uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u)
        return (uint8_t)(sign | (magnitude > 0x7f800000u ? AF_F8_NAN : infinity));
    if (magnitude < (e4m3 ? 0x3c800000u : 0x38800000u)) /* 2^-6 and 2^-14 */
        return (uint8_t)(sign |
                         (af_f32_bits(af_f32_of_bits(magnitude) + last) - af_f32_bits(last)));
    magnitude += (1u << (shift - 1)) - 1 + (magnitude >> shift & 1u);
    magnitude = (magnitude >> shift) - (e4m3 ? 120u << 3 : 112u << 2);
    return (uint8_t)(sign | (magnitude < largest ? magnitude : largest));
}

/* Element `index` of a row of any type of numbers. */
static inline float af_convert_load(int32_t dtype, const void *row, int64_t index)
{
    if (dtype == ANYFLASH_F32)
        return ((const float *)row)[index];
    if (af_dtype_is_f8(dtype))
        return af_f32_of_f8(dtype, ((const uint8_t *)row)[index]);
    uint16_t bits = ((const uint16_t *)row)[index];
    return dtype == ANYFLASH_F16 ? af_f32_of_f16(bits) : af_f32_of_bf16(bits);
}

static inline void af_convert_store(int32_t dtype, void *row, int64_t index, float number)
{
    if (dtype == ANYFLASH_F32)
        ((float *)row)[index] = number;
    else if (af_dtype_is_f8(dtype))
        ((uint8_t *)row)[index] = af_f8_of_f32(dtype, number);
    else
        ((uint16_t *)row)[index] =
            dtype == ANYFLASH_F16 ? af_f16_of_f32(number) : af_bf16_of_f32(number);
}

#endif
