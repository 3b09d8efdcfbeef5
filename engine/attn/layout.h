/*
 * layout.h: where the tensors and arrays of a problem lie, one box each, and
 * that what is written lies apart from itself and from all else. Used by the
 * checks of the forward and of the backward.
 */
#ifndef AF_ENGINE_ATTN_LAYOUT_H
#define AF_ENGINE_ATTN_LAYOUT_H

#include "engine/attn/box.h"
#include "engine/attn/problem.h"

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
