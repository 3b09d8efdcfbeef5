/*
 * backward_amx.c: the backward of bf16 and f16; AMX computes all five products.
 *
 * Pairs lie as in backward_avx512bf16.c, and P and dS are rounded to bf16 and
 * sums are not, so the error has the same bound. Only the layout of the keys
 * for dQ differs: columns of K are rows of a tile.
 *
 * An f16 is the exact sum of two bf16, and P and dS are rounded to such sums: four
 * products of tiles for scores and dP, three for the others (product_amx.h).
 *
 * These kernels have never run on a processor with AMX: see kernel.h, unmeasured.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512bf16.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/product_amx.h"

#define AF_UNMEASURED true
#include "engine/cpu/kernels.h"

#define AF_LEVEL amx
#define AF_TILE q32k32
#define AF_NEEDS AF_CPU_AMX
#define TILE_VECS 2
#define GRADIENT_VECS 2
#define AF_PAIRS 1
#define AF_AMX 1
#define AF_ELEMENT uint16_t

#define AF_FN(name) name##_bf16
#define AF_PARTS 1
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_bf16
#include "engine/cpu/finite_template.h"

#include "engine/cpu/backward_template.h"

AF_BACKWARD_ROW(bf16, ANYFLASH_BF16);
#undef AF_FN
#undef AF_PARTS
#undef AF_DIRECT
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#define AF_FN(name) name##_f16
#define AF_PARTS 2
#define AF_DIRECT 0
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#define AF_STORE vec_store_f16
#include "engine/cpu/finite_template.h"

#include "engine/cpu/backward_template.h"

AF_BACKWARD_ROW(f16, ANYFLASH_F16);

AF_INSTRUCTIONS_END
#endif
