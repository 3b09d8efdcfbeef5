/*
 * array.h: a tensor that lies in a file: its numbers' type, its shape, its
 * bytes. What npy.h and safetensors.h find.
 */
#ifndef AF_KIT_FORMATS_ARRAY_H
#define AF_KIT_FORMATS_ARRAY_H

#include "engine/base/base.h"

#define AF_FORMATS_ARRAY_DIMS_MAX 8

enum af_element {
    AF_ELEMENT_F32,
    AF_ELEMENT_F16,
    AF_ELEMENT_BF16,
    AF_ELEMENT_RAW16 /* two bytes a number, and the file does not say which kind */
};

/* Row-major and little-endian. `data` is borrowed from the file and may lie at any address. */
struct af_npy_array {
    enum af_element element;
    size_t dim_count;
    int64_t dims[AF_FORMATS_ARRAY_DIMS_MAX];
    const unsigned char *data;
    size_t len; /* in bytes: elements times their size */
};

/* "f32", "f16", "bf16" or "16 bits without a type". */
const char *af_element_text(enum af_element element);

/* Bytes of one number. */
size_t af_element_bytes(enum af_element element);

/* Elements times their size, or false when that overflows or a dimension is negative. */
bool af_formats_array_bytes(const struct af_npy_array *array, size_t *bytes_out);

#endif
