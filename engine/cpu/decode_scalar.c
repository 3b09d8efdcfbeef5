/*
 * decode_scalar.c: the decode kernels for any machine, in plain C. 8 of the 16 registers
 * hold sums. All types share one kernel for floats: rows of f16, bf16 and fp8 are converted
 * once a block, because without an instruction for it conversion takes long.
 */
#include "engine/attn/rows.h"

#include "engine/cpu/vec_scalar.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL scalar
#define AF_NEEDS AF_CPU_BASE
#define DECODE_SUMS 8
#define DECODE_SMALL 1

#define AF_PAIRS 0
#define AF_F8 1
#define AF_FN(name) name##_any
#define AF_ELEMENT float
#define AF_STORED float
#define AF_STORED_BYTES(problem) ((int64_t)(problem)->key_bytes)
#define AF_LOAD vec_loadu
#define AF_LOAD_SOME vec_load_some
#define AF_WIDEN(dtype, from, count, to)                                                       \
    af_row_floats((enum anyflash_dtype)(dtype), from, count, to)
#define AF_WIDE_UNIT(dtype) 1.0f
#define AF_WIDE_DTYPE ANYFLASH_F32
#include "engine/cpu/finite_template.h"

#include "engine/cpu/decode_template.h"
AF_DECODE_ROW_OF(f32, ANYFLASH_F32, false, any);
AF_DECODE_ROW_OF(f16, ANYFLASH_F16, false, any);
AF_DECODE_ROW_OF(bf16, ANYFLASH_BF16, false, any);
AF_DECODE_ROW_OF(f8, 0, true, any);
