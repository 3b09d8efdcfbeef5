/*
 * decode_avx512.c: the decode kernels for AVX-512. The accumulators occupy 16 of the
 * 32 vector registers.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX512

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx512
#define AF_NEEDS AF_CPU_AVX512
#define DECODE_SUMS 16
#include "engine/cpu/decode_types.h"

AF_INSTRUCTIONS_END
#endif
