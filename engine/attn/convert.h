/*
 * convert.h: converts single f16, bf16 and f32 numbers with integer arithmetic,
 * with the same result on every machine. Rounds to nearest even; NaN becomes a
 * quiet NaN with the upper bits of its payload. Kernels convert whole vectors;
 * these functions are the reference for their results and are used on slow
 * paths.
 */
#ifndef AF_ENGINE_ATTN_CONVERT_H
#define AF_ENGINE_ATTN_CONVERT_H

#include <string.h>

#include "engine/base/base.h"

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

/* Element `index` of a row of f32, f16 or bf16. */
static inline float af_convert_load(int32_t dtype, const void *row, int64_t index)
{
    if (dtype == ANYFLASH_F32)
        return ((const float *)row)[index];
    uint16_t bits = ((const uint16_t *)row)[index];
    return dtype == ANYFLASH_F16 ? af_f32_of_f16(bits) : af_f32_of_bf16(bits);
}

static inline void af_convert_store(int32_t dtype, void *row, int64_t index, float number)
{
    if (dtype == ANYFLASH_F32)
        ((float *)row)[index] = number;
    else
        ((uint16_t *)row)[index] =
            dtype == ANYFLASH_F16 ? af_f16_of_f32(number) : af_bf16_of_f32(number);
}

#endif
