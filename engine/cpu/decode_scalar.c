/*
 * decode_scalar.c: the decode kernels for any machine, in plain C. 8 of the 16 registers
 * hold sums.
 */
#include "engine/base/instructions.h"

#include "engine/attn/rows.h"

#include "engine/cpu/vec_scalar.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL scalar
#define AF_NEEDS AF_CPU_BASE
#define DECODE_SUMS 8
#include "engine/cpu/decode_types.h"
