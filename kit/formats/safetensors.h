/*
 * safetensors.h: files of named tensors.
 *
 * Source: the format's page in the safetensors repository: a length of 8 bytes,
 * little-endian, a JSON object of that length (name: dtype, shape, data_offsets),
 * then the bytes.
 */
#ifndef AF_KIT_FORMATS_SAFETENSORS_H
#define AF_KIT_FORMATS_SAFETENSORS_H

#include "engine/base/base.h"
#include "kit/formats/array.h"

#define AF_SAFETENSORS_HEAD_BYTES_MAX (16u << 20)

/*
 * The tensor `tensor` of the file `bytes`; it borrows from them. `name` is what
 * errors call the file, scrubbed already. F32, F16 and BF16 are read. Fails with
 * NOT_FOUND (no such tensor; the sentence lists some that are there), DATA,
 * UNSUPPORTED, LIMIT or NO_MEMORY.
 */
enum anyflash_status af_safetensors_read(struct af_span bytes, const char *name,
                                         const char *tensor, struct af_npy_array *array_out,
                                         struct anyflash_error *err);

/* Whether `bytes` may be a safetensors file: a length that fits, then '{'. */
bool af_safetensors_is(struct af_span bytes);

#endif
