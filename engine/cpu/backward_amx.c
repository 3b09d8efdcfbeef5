/*
 * backward_amx.c: bf16 backward: AMX computes all five products.
 *
 * Pairs lie as in backward_avx512bf16.c, and P and dS are rounded to bf16 and
 * sums are not, so the error has the same bound. Only the layout of the keys
 * for dQ differs: columns of K are rows of a tile.
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
#define GRADIENT_VECS 2
#define AF_PAIRS 1
#define AF_AMX 1
#define AF_ELEMENT uint16_t
#define AF_FN(name) name##_bf16
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_some_rounded
#include "engine/cpu/finite_template.h"

#include "engine/cpu/backward_template.h"

AF_BACKWARD_ROW(bf16, ANYFLASH_BF16);

AF_INSTRUCTIONS_END
#endif
