/*
 * forward_amx.c: bf16 forward by AMX: a tile instruction multiplies 16 keys by 16 rows
 * over 32 elements.
 *
 * As in forward_avx512bf16.c words are pairs of bf16, probabilities are rounded to
 * bf16 and sums are not, so the error has the same bound. Only the layout of the
 * values differs: columns of V are rows of a tile. fp8 keys and values are widened to bf16,
 * block by block, by VPERMI2B, which every processor with AMX has.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512bf16.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/product_amx.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL amx
#define AF_TILE q32k32
#define AF_NEEDS AF_CPU_AMX
#define TILE_VECS 2
#define TILE_ROWS 32
#define AF_ELEMENT uint16_t
#define AF_PAIRS 1
#define AF_AMX 1
#define AF_F8 0
#define AF_STORED AF_ELEMENT
#define AF_FN(name) name##_bf16
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#include "engine/cpu/finite_template.h"

#include "engine/cpu/forward_template.h"

AF_FORWARD_ROW_OF(bf16, ANYFLASH_BF16, false, AF_FEATURE_DROPOUT, true, 384);
#undef AF_FN
#undef AF_F8
#undef AF_STORED
#undef AF_NEEDS

AF_INSTRUCTIONS_END
AF_INSTRUCTIONS_AMX_VBMI

#include "engine/cpu/widen_f8.h"

#define AF_NEEDS (AF_CPU_AMX | AF_CPU_AVX512VBMI)
#define AF_FN(name) name##_bf16_f8
#define AF_F8 1
#define AF_STORED uint8_t

#include "engine/cpu/forward_template.h"

AF_FORWARD_ROW_F8(bf16_f8, ANYFLASH_BF16, true, 384);

AF_INSTRUCTIONS_END
#endif
