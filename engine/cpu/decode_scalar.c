/*
 * decode_scalar.c: the decode kernels for any machine, in plain C: 8 sums of 16 registers.
 */
#include "engine/cpu/vec_scalar.h"

#define AF_LEVEL scalar
#define AF_NEEDS AF_CPU_BASE
#define DECODE_SUMS 8
#include "engine/cpu/decode_types.inc"
