/*
 * embedded.h: the project's data inside the program, compressed with zstd. The
 * bytes are written by tools/pack_data.c when the program is built.
 */
#ifndef AF_KIT_CATALOG_EMBEDDED_H
#define AF_KIT_CATALOG_EMBEDDED_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

struct af_embedded {
    const unsigned char *bytes;
    size_t len;
};

extern const struct af_embedded af_embedded_catalog;       /* form of catalog_pack.h */
extern const struct af_embedded af_embedded_tables;        /* one JSON object, see tables.c */
extern const struct af_embedded af_embedded_torch_builds;  /* data/torch_symbols.json */
extern const struct af_embedded af_embedded_torch_symbols; /* data/torch_symbols.bin */

/*
 * The decompressed bytes, in `arena`. Fails with NO_MEMORY, or INTERNAL when the
 * bytes are not what was embedded.
 */
enum anyflash_status af_embedded_open(const struct af_embedded *embedded,
                                      struct af_arena *arena, struct af_span *bytes_out,
                                      struct anyflash_error *err);

#endif
