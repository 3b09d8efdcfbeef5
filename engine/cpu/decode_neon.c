/*
 * decode_neon.c: the decode kernels for AArch64. The accumulators occupy 16 of the
 * 32 vector registers.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_NEON

#include "engine/attn/rows.h"

#include "engine/cpu/vec_neon.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL neon
#define AF_NEEDS AF_CPU_NEON
#define DECODE_SUMS 16
#include "engine/cpu/decode_types.h"

#endif
