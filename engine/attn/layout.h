/*
 * layout.h: where the tensors and arrays of a problem lie in memory, and that
 * each output is apart from itself and from everything else. Used by the checks
 * of the forward and of the backward.
 *
 * A box is the bytes of a strided tensor: three strides around a run of bytes,
 * moved so that no stride is negative. Strides nest when each is at least as
 * long as everything inside it; then no two elements are the same byte.
 */
#ifndef AF_ENGINE_ATTN_LAYOUT_H
#define AF_ENGINE_ATTN_LAYOUT_H

#include "engine/attn/problem.h"

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

#define AF_DTYPE_BIT(dtype) (1u << (dtype))
#define AF_DTYPE_FLOATS                                                                        \
    (AF_DTYPE_BIT(ANYFLASH_F32) | AF_DTYPE_BIT(ANYFLASH_F16) | AF_DTYPE_BIT(ANYFLASH_BF16))
#define AF_LAYOUT_MAX 32

struct af_layout {
    struct af_box box[AF_LAYOUT_MAX];
    bool output[AF_LAYOUT_MAX];
    size_t count;
};

struct af_row_of_tensor {
    const char *name;
    const struct anyflash_tensor *tensor;
    unsigned dtypes; /* AF_DTYPE_BITs of what it may be */
    bool needed;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t run; /* elements of a row */
};

/* An array of 4-byte elements; NULL: absent. */
struct af_row_of_array {
    const char *name;
    const void *data;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t stride[AF_BOX_DIMS];
    int64_t run;
};

/* The AF_DTYPE_BIT of a float type; 0 for anything else. */
unsigned af_dtype_bit(int32_t dtype);

/* Each checks type, alignment and strides, and adds the boxes of what is there. */
enum anyflash_status af_layout_tensors(struct af_layout *layout,
                                       const struct af_row_of_tensor *rows, size_t count,
                                       struct anyflash_error *err);
enum anyflash_status af_layout_arrays(struct af_layout *layout,
                                      const struct af_row_of_array *rows, size_t count,
                                      struct anyflash_error *err);

/* Starts a layout with all that the forward of `args` reads and writes. */
enum anyflash_status af_layout_forward(struct af_layout *layout,
                                       const struct anyflash_attend_args *args,
                                       struct anyflash_error *err);

/* Refuses an output that shares a byte with anything else. */
enum anyflash_status af_layout_check_apart(const struct af_layout *layout,
                                           struct anyflash_error *err);

#endif
