/*
 * backward_scalar.c: the backward kernels for any machine, in plain C.
 *
 * Tile: 12 rows (3 vectors of 4) by 2 keys; gradients of 3 keys by 8 columns: 6
 * accumulators each.
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
#define GRADIENT_ROWS 3
#define GRADIENT_VECS 2
#define AF_TEMPLATE "engine/cpu/backward_template.h"
#define AF_ROW AF_BACKWARD_ROW
#include "engine/cpu/element_types.h"
