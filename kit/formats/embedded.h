/*
 * embedded.h: files of data/ inside the program: bytes that are compressed with zstd, and
 * rows. tools/pack_data.c writes them when the program is built.
 */
#ifndef AF_KIT_FORMATS_EMBEDDED_H
#define AF_KIT_FORMATS_EMBEDDED_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

struct af_embedded {
    const unsigned char *bytes;
    size_t len;
};

/* Each is defined in the folder that reads it. */
extern const struct af_embedded af_embedded_catalog;       /* format: catalog_pack.h */
extern const struct af_embedded af_embedded_torch_symbols; /* data/torch_symbols.bin */

/* The rows of data/NAME.tsv with a text for each column, and a row of NULL at the end. */
extern const char *const af_embedded_amd_targets[][5];
extern const char *const af_embedded_distributions[][5];
extern const char *const af_embedded_driver_cuda[][2];
extern const char *const af_embedded_gpu_generations[][8];
extern const char *const af_embedded_gpu_names[][3];
extern const char *const af_embedded_index_releases[][3];
extern const char *const af_embedded_log_parts[][4];
extern const char *const af_embedded_wheel_contents[][4];
extern const char *const af_embedded_taken_names[][2];
extern const char *const af_embedded_version_windows[][6];

/*
 * The decompressed bytes, in `arena`. Fails with INTERNAL when the bytes
 * were not embedded correctly.
 */
enum anyflash_status af_embedded_open(const struct af_embedded *embedded,
                                      struct af_arena *arena, struct af_span *bytes_out,
                                      struct anyflash_error *err);

#endif
