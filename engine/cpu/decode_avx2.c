/*
 * decode_avx2.c: the decode kernels for AVX2: 8 sums of 16 registers.
 */
#include "engine/cpu/vec_avx2.h"

#define AF_LEVEL avx2
#define AF_NEEDS AF_CPU_AVX2
#define DECODE_SUMS 8
#include "engine/cpu/decode_types.inc"
