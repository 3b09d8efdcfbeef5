/*
 * npy.h: NumPy's .npy files, one array each.
 *
 * Source: NumPy's format specification (numpy.lib.format), versions 1.0, 2.0
 * and 3.0: a magic, a header that is a Python dictionary literal, the bytes.
 * Only what NumPy itself writes is read, so no Python is evaluated.
 */
#ifndef AF_KIT_FORMATS_NPY_H
#define AF_KIT_FORMATS_NPY_H

#include "engine/base/base.h"

#define AF_NPY_DIMS_MAX 8
#define AF_NPY_HEAD_BYTES_MAX 65536u

enum af_npy_element {
    AF_NPY_F32,
    AF_NPY_F16,
    AF_NPY_BF16,
    AF_NPY_RAW16 /* two bytes per number; the file does not say which type */
};

/* Row-major and little-endian. `data` is borrowed from the file and may be at any address. */
struct af_npy_array {
    enum af_npy_element element;
    size_t dim_count;
    int64_t dims[AF_NPY_DIMS_MAX];
    const unsigned char *data;
    size_t len; /* bytes: elements times element size */
};

/* "f32", "f16", "bf16" or "16 bits without a type". */
const char *af_npy_element_text(enum af_npy_element element);

/* Bytes per number. */
size_t af_npy_element_bytes(enum af_npy_element element);

/* Computes elements times their size; false on overflow or a negative dimension. */
bool af_npy_array_bytes(const struct af_npy_array *array, size_t *bytes_out);

/*
 * Reads the array in `bytes` and borrows from them. `name` is the file's name
 * for errors, scrubbed already. '<f4' is f32, '<f2' f16; two raw bytes ('<V2' or
 * '|V2', which is how NumPy writes bf16, and '<u2') are RAW16. Fails with DATA
 * (malformed, truncated), UNSUPPORTED (another type, Fortran order, big-endian)
 * or LIMIT.
 */
enum anyflash_status af_npy_read(struct af_span bytes, const char *name,
                                 struct af_npy_array *array_out, struct anyflash_error *err);

/* Most bytes of a header written by af_npy_head(). */
#define AF_NPY_WRITTEN_BYTES_MAX 512

/*
 * Writes the header of a version 1.0 file for an array like `array` (its data is
 * not read) into `buffer` of AF_NPY_WRITTEN_BYTES_MAX and returns its length, a
 * multiple of 64. bf16 is written as '<V2'.
 */
size_t af_npy_head(const struct af_npy_array *array, char *buffer);

#endif
