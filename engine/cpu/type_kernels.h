/*
 * type_kernels.h: includes the kernel templates for one element type, and adds their rows of
 * the manifest: forward; decode if DECODE_SUMS is defined; backward unless AF_F8.
 *
 * Parameters: AF_TYPE, the type in the kernels' names; AF_DTYPE, its enum anyflash_dtype, or
 * 0: any type of q; those of kernels.h; those of the templates but AF_FN(name).
 */
#include "engine/attn/rows.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/vec.h"

#define AF_FN(name) AF_FUNCTION(name, fwd, AF_TYPE)
#include "engine/cpu/forward_template.h"
const struct af_kernel AF_NAME(fwd, AF_TYPE, AF_LEVEL, AF_TILE) = {
    .name = AF_TEXT(AF_NAME(fwd, AF_TYPE, AF_LEVEL, AF_TILE)),
    .operation = AF_FORWARD,
    .dtype = AF_DTYPE,
    .reads_f8 = AF_F8,
    .needs = AF_NEEDS,
    .lacks_dropout = AF_F8 || AF_PAIRS,
    .positive_scale = AF_PAIRS,
    .rows_max = AF_TILES_MAX * TILE_VECS * AF_LANES,
    .rows_granule = TILE_VECS * AF_LANES,
    .rows_preferred = AF_PAIRS ? 384 : 192,
    .scratch_bytes = AF_FN(scratch_bytes),
    .run_forward = AF_FN(run),
};
#undef AF_FN

#ifdef DECODE_SUMS
#define AF_FN(name) AF_FUNCTION(name, dec, AF_TYPE)
#include "engine/cpu/decode_template.h"
AF_DECODE_ROW(AF_TYPE, AF_DTYPE, AF_F8);
#undef AF_FN
#endif

#if !AF_F8
#define AF_FN(name) AF_FUNCTION(name, bwd, AF_TYPE)
#include "engine/cpu/backward_template.h"
const struct af_kernel AF_NAME(bwd, AF_TYPE, AF_LEVEL, AF_TILE) = {
    .name = AF_TEXT(AF_NAME(bwd, AF_TYPE, AF_LEVEL, AF_TILE)),
    .operation = AF_BACKWARD,
    .dtype = AF_DTYPE,
    .needs = AF_NEEDS,
    .scratch_bytes = AF_FN(scratch_bytes),
    .run_backward = AF_FN(run),
};
#undef AF_FN
#endif
