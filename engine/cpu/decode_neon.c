/*
 * decode_neon.c: the decode kernels for AArch64: 16 sums of 32 registers.
 */
#include "engine/cpu/vec_neon.h"

#define AF_LEVEL neon
#define AF_NEEDS AF_CPU_NEON
#define DECODE_SUMS 16
#include "engine/cpu/decode_types.inc"
