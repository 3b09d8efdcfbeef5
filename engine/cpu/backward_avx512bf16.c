/*
 * backward_avx512bf16.c: bf16 backward by VDPBF16PS, in all five products.
 *
 * Pairs lie along the head size for scores and dP, along the keys for dQ, along
 * the rows for dV and dK. P and dS are rounded to bf16, sums are not. Gradients
 * below 2^-126 become 0.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512BF16
AF_INSTRUCTIONS_AVX512BF16

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512bf16.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx512bf16
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512BF16
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define AF_PAIRS 1
#define AF_FN(name) name##_bf16
#define AF_ELEMENT uint16_t
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_some_rounded
#include "engine/cpu/finite_template.h"

#include "engine/cpu/backward_template.h"

AF_BACKWARD_ROW(bf16, ANYFLASH_BF16);

AF_INSTRUCTIONS_END
#endif
