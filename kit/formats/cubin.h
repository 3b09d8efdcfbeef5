/*
 * cubin.h: the kernels inside a cubin, the ELF file that holds GPU machine code.
 *
 * A kernel is a symbol of type FUNC whose st_other has bit 0x10, in the cubin's
 * own symbol table; device functions lack the bit. Both layouts are read: CUDA
 * 12 (EI_OSABI 51) and CUDA 13 (65); they differ only in e_flags, which is not
 * used here. Of an uncompressed cubin, only headers and names are read.
 */
#ifndef AF_KIT_FORMATS_CUBIN_H
#define AF_KIT_FORMATS_CUBIN_H

#include "kit/formats/fatbin.h"

#define AF_CUBIN_BYTES_MAX (512u * 1024u * 1024u)

/* Called with the mangled name of each kernel; returning false stops the visit. */
typedef bool af_cubin_visit(void *context, const char *name);

/*
 * Visits the kernels of a cubin. Fails with DATA when it is not a cubin or is
 * truncated. `name`, scrubbed, is for errors, here and below.
 */
enum anyflash_status af_cubin_kernels(struct af_span bytes, const char *name,
                                      af_cubin_visit *visit, void *context,
                                      struct anyflash_error *err);

/*
 * As af_cubin_kernels() for a SASS image of `file`, which is decompressed if
 * necessary. Fails as af_gpu_image_unpack(), too.
 */
enum anyflash_status af_gpu_image_kernels(struct af_span file, const char *name,
                                          const struct af_gpu_image *image,
                                          af_cubin_visit *visit, void *context,
                                          struct anyflash_error *err);

/*
 * Decompresses one image into memory that the caller frees with af_mem_free().
 * Fails with LIMIT above `max_bytes`, with DATA when the result does not match
 * the header, and with NO_MEMORY.
 */
enum anyflash_status af_gpu_image_unpack(struct af_span file, const char *name,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err);

#endif
