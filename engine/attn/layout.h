/*
 * layout.h: the positions in memory of a problem's tensors and arrays, and the
 * check that no output overlaps itself or anything else. Used by the checks of
 * the forward and backward pass.
 *
 * A box is the bytes of a strided tensor: contiguous runs of bytes with up to
 * three strides, normalised so that no stride is negative. Strides nest when
 * each is at least as long as everything inside it; then no two elements share a
 * byte.
 */
#ifndef AF_ENGINE_ATTN_LAYOUT_H
#define AF_ENGINE_ATTN_LAYOUT_H

#include "engine/attn/problem.h"

enum { AF_BOX_BATCH, AF_BOX_HEAD, AF_BOX_ROW, AF_BOX_DIMS };

struct af_box {
    const char *name;
    uintptr_t low;      /* first byte */
    int64_t span_bytes; /* from there to the end of the last byte; 0: empty */
    int64_t run_bytes;  /* bytes of one row */
    int64_t extent[AF_BOX_DIMS];
    int64_t stride_bytes[AF_BOX_DIMS]; /* 0 or more; 0 where the extent is 1 */
};

/*
 * The box of elements of `element_bytes` at `data` with the given extents and
 * strides (in elements); `run` elements in a row. Returns AF_BOX_DIMS, or the
 * dimension whose stride exceeds the address space. Strides of empty rows are
 * checked, too, because their addresses are computed.
 */
int af_box_init(struct af_box *box, const char *name, const void *data, int64_t element_bytes,
                const int64_t extent[AF_BOX_DIMS], const int64_t stride[AF_BOX_DIMS],
                int64_t run);

/* Whether the strides nest, so that no two elements share a byte. */
bool af_box_nests(const struct af_box *box);

/*
 * Whether two boxes share a byte. Exact if both nest and have the same strides,
 * as two parts of one interleaved buffer do; otherwise true whenever the byte
 * ranges overlap.
 */
bool af_box_meets(const struct af_box *a, const struct af_box *b);

#define AF_DTYPE_BIT(dtype) (1u << (dtype))
#define AF_DTYPE_FLOATS                                                                        \
    (AF_DTYPE_BIT(ANYFLASH_F32) | AF_DTYPE_BIT(ANYFLASH_F16) | AF_DTYPE_BIT(ANYFLASH_BF16))
#define AF_DTYPE_F8S (AF_DTYPE_BIT(ANYFLASH_F8_E4M3) | AF_DTYPE_BIT(ANYFLASH_F8_E5M2))
#define AF_LAYOUT_MAX 32

struct af_layout {
    struct af_box box[AF_LAYOUT_MAX];
    bool output[AF_LAYOUT_MAX];
    size_t count;
};

/* One tensor to check. */
struct af_layout_tensor {
    const char *name;
    const struct anyflash_tensor *tensor;
    unsigned dtypes; /* AF_DTYPE_BITs of allowed types */
    bool needed;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t run; /* elements per row */
};

/* One array of 4-byte elements to check; data NULL: absent. */
struct af_layout_array {
    const char *name;
    const void *data;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t stride[AF_BOX_DIMS];
    int64_t run;
};

/* The AF_DTYPE_BIT of f32, f16 or bf16; 0 for anything else. */
unsigned af_dtype_bit(int32_t dtype);

/*
 * Each checks type, alignment and strides, and adds the boxes of the tensors
 * that are present.
 */
enum anyflash_status af_layout_tensors(struct af_layout *layout,
                                       const struct af_layout_tensor *rows, size_t count,
                                       struct anyflash_error *err);
enum anyflash_status af_layout_arrays(struct af_layout *layout,
                                      const struct af_layout_array *rows, size_t count,
                                      struct anyflash_error *err);

/* Starts a layout with everything that the forward pass of `args` reads and writes. */
enum anyflash_status af_layout_forward(struct af_layout *layout,
                                       const struct anyflash_attend_args *args,
                                       struct anyflash_error *err);

/* Fails if an output shares a byte with anything else. */
enum anyflash_status af_layout_check_apart(const struct af_layout *layout,
                                           struct anyflash_error *err);

#endif
