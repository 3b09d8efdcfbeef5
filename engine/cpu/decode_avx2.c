/*
 * decode_avx2.c: the decode kernels for AVX2. 8 of the 16 registers hold sums.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX2
AF_INSTRUCTIONS_AVX2

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx2.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx2
#define AF_NEEDS AF_CPU_AVX2
#define DECODE_SUMS 8
#include "engine/cpu/decode_types.h"

AF_INSTRUCTIONS_END
#endif
