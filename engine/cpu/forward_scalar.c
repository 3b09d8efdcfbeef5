/*
 * forward_scalar.c: the forward kernels for any machine, in plain C.
 *
 * Tile: 12 rows (3 vectors of 4) by 2 keys, 6 accumulators.
 */
#include "engine/attn/rows.h"

#include "engine/cpu/vec_scalar.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL scalar
#define AF_TILE q12k2
#define AF_NEEDS AF_CPU_BASE
#define TILE_VECS 3
#define TILE_ROWS 2
#include "engine/cpu/forward_types.h"
