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
#include "kit/formats/array.h"

#define AF_NPY_HEAD_BYTES_MAX 65536u

/*
 * The array that `bytes` hold; it borrows from them. `name` is what errors call
 * the file, scrubbed already. '<f4' is f32, '<f2' f16; two raw bytes ('<V2' or
 * '|V2', which is how NumPy writes bf16, and '<u2') are RAW16. Fails with DATA
 * (malformed, cut short), UNSUPPORTED (another type, Fortran order, big-endian)
 * or LIMIT.
 */
enum anyflash_status af_npy_read(struct af_span bytes, const char *name,
                                 struct af_npy_array *array_out, struct anyflash_error *err);

/* A head holds at most this many bytes. */
#define AF_NPY_WRITTEN_BYTES_MAX 512

/*
 * Writes the head of a version 1.0 file for an array like `array` (its data is
 * not looked at) into `buffer` of AF_NPY_WRITTEN_BYTES_MAX and returns its
 * length, a multiple of 64. bf16 is written as '<V2'.
 */
size_t af_npy_head(const struct af_npy_array *array, char *buffer);

/* Whether `bytes` start as a .npy file does. */
bool af_npy_is(struct af_span bytes);

#endif
