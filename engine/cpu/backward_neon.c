/*
 * backward_neon.c: the backward kernels for AArch64.
 *
 * Tile: 12 rows (3 vectors) by 8 keys; gradients of 6 keys by 16 columns. Each
 * uses 24 of the 32 registers as accumulators.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_NEON

#include "engine/attn/rows.h"

#include "engine/cpu/vec_neon.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL neon
#define AF_TILE q12k8
#define AF_NEEDS AF_CPU_NEON
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define AF_TEMPLATE "engine/cpu/backward_template.h"
#define AF_ROW AF_BACKWARD_ROW
#include "engine/cpu/element_types.h"

#endif
