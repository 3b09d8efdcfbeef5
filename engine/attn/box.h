/*
 * box.h: the bytes that a strided tensor occupies, and whether two tensors
 * share one. Used by the checks alone.
 *
 * A box is three strides around a run of bytes, moved so that strides are not
 * negative. Strides nest when each is at least as long as all that lies inside
 * it; then no two elements are the same byte.
 */
#ifndef AF_ENGINE_ATTN_BOX_H
#define AF_ENGINE_ATTN_BOX_H

#include "engine/base/base.h"

enum { AF_BOX_BATCH, AF_BOX_HEAD, AF_BOX_ROW, AF_BOX_DIMS };

struct af_box {
    const char *name;
    uintptr_t low;      /* first byte */
    int64_t span_bytes; /* to the byte past the last; 0: empty */
    int64_t run_bytes;  /* of one row */
    int64_t extent[AF_BOX_DIMS];
    int64_t stride_bytes[AF_BOX_DIMS]; /* 0 or more; 0 where the extent is 1 */
};

/*
 * The box of elements of `element_bytes` at `data` with the given extents and
 * strides (in elements); `run` elements in a row. Returns AF_BOX_DIMS, or the
 * dimension whose stride leaves the address space. Strides of rows without
 * elements are checked too: their addresses are computed.
 */
int af_box_init(struct af_box *box, const char *name, const void *data, int64_t element_bytes,
                const int64_t extent[AF_BOX_DIMS], const int64_t stride[AF_BOX_DIMS],
                int64_t run);

/* Whether the strides nest, so that no two elements share a byte. */
bool af_box_nests(const struct af_box *box);

/*
 * Whether two boxes share a byte. Exact where both nest and their strides are
 * the same, as in two parts of one interleaved buffer; otherwise true whenever
 * the ranges of bytes meet.
 */
bool af_box_meets(const struct af_box *a, const struct af_box *b);

#endif
