/*
 * cubin.h: the kernels inside a cubin, the ELF file that holds GPU machine code.
 *
 * A kernel is a symbol of type FUNC whose st_other has bit 0x10, in the cubin's
 * own symbol table; device functions lack the bit. Both layouts are read: CUDA 12
 * (EI_OSABI 51) and CUDA 13 (65); they differ in e_flags only, which nothing
 * here needs. Of a cubin that is not packed only headers and names are read.
 */
#ifndef AF_KIT_FORMATS_CUBIN_H
#define AF_KIT_FORMATS_CUBIN_H

#include "kit/formats/fatbin.h"

#define AF_CUBIN_BYTES_MAX (512u * 1024u * 1024u)

/* Calls visit(context, mangled name) for every kernel until it returns false. */
typedef bool af_cubin_visit(void *context, const char *name);

/*
 * Visits the kernels of the cubin at `offset` of the source. Fails with DATA
 * when it is no cubin or is cut short, as the source does, and with NO_MEMORY;
 * kernels seen until then were visited.
 */
enum anyflash_status af_cubin_kernels(struct af_source *source, uint64_t offset, uint64_t len,
                                      af_cubin_visit *visit, void *context,
                                      struct anyflash_error *err);

/* As af_cubin_kernels() for an image of kind SASS in `file`, unpacked when it is packed. */
enum anyflash_status af_gpu_image_kernels(struct af_source *file,
                                          const struct af_gpu_image *image,
                                          af_cubin_visit *visit, void *context,
                                          struct anyflash_error *err);

/*
 * Reads and unpacks one image into memory that the caller frees by
 * af_mem_free(). Fails with LIMIT above `max_bytes`, with DATA when it does not
 * unpack to what its header says, as the source does, and with NO_MEMORY.
 */
enum anyflash_status af_gpu_image_unpack(struct af_source *file,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err);

#endif
