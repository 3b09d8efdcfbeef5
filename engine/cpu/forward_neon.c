/*
 * forward_neon.c: the forward kernels for AArch64.
 *
 * Tile: 12 rows (3 vectors) by 8 keys, in 24 of the 32 registers.
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
#include "engine/cpu/forward_types.h"

#endif
