/*
 * decode_avx512bf16.c: decode with bf16 queries. VDPBF16PS computes scores and output;
 * probabilities are rounded to bf16 for it, but their sums are f32. fp8 keys and
 * values are widened to bf16 by VPERMI2B.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512BF16
AF_INSTRUCTIONS_AVX512BF16

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512bf16.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx512bf16
#define AF_NEEDS AF_CPU_AVX512BF16
#define DECODE_SUMS 16
#define DECODE_SMALL 0
#define AF_STORED_BYTES(problem) ((void)(problem), (int64_t)sizeof(AF_STORED))

#define AF_PAIRS 1
#define AF_ELEMENT uint16_t

#define AF_F8 0
#define AF_STORED AF_ELEMENT
#define AF_FN(name) name##_bf16
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#include "engine/cpu/finite_template.h"

#include "engine/cpu/decode_template.h"
AF_DECODE_ROW(bf16, ANYFLASH_BF16);
#undef AF_F8
#undef AF_STORED
#undef AF_FN
#undef AF_NEEDS

AF_INSTRUCTIONS_END
AF_INSTRUCTIONS_AVX512VBMI_BF16

#include "engine/cpu/widen_f8.h"

#define AF_NEEDS (AF_CPU_AVX512BF16 | AF_CPU_AVX512VBMI)
#define AF_F8 1
#define AF_STORED uint8_t
#define AF_FN(name) name##_bf16_f8
#define AF_WIDEN af_widen_apart
#define AF_WIDE_UNIT(dtype) 1
#define AF_WIDE_DTYPE ANYFLASH_BF16
#include "engine/cpu/finite_template.h"

#include "engine/cpu/decode_template.h"
AF_DECODE_ROW_F8(bf16_f8, ANYFLASH_BF16);

AF_INSTRUCTIONS_END
#endif
