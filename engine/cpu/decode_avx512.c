/*
 * decode_avx512.c: the decode kernels for AVX-512: 16 sums of 32 registers.
 */
#include "engine/cpu/vec_avx512.h"

#define AF_LEVEL avx512
#define AF_NEEDS AF_CPU_AVX512
#define DECODE_SUMS 16
#include "engine/cpu/decode_types.inc"
