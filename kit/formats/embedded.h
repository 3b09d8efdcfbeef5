/*
 * embedded.h: the files of data/ inside the program, compressed with zstd. The
 * bytes are written by tools/pack_data.c when the program is built.
 */
#ifndef AF_KIT_FORMATS_EMBEDDED_H
#define AF_KIT_FORMATS_EMBEDDED_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

struct af_embedded {
    const unsigned char *bytes;
    size_t len;
};

/* Each is defined in the folder that reads it. */
extern const struct af_embedded af_embedded_catalog;       /* format: catalog_pack.h */
extern const struct af_embedded af_embedded_torch_builds;  /* data/torch_symbols.json */
extern const struct af_embedded af_embedded_torch_symbols; /* data/torch_symbols.bin */
extern const struct af_embedded af_embedded_distributions; /* data/NAME.tsv, as the next ones */
extern const struct af_embedded af_embedded_driver_cuda;
extern const struct af_embedded af_embedded_gpu_names;
extern const struct af_embedded af_embedded_torch_assertions;
extern const struct af_embedded af_embedded_wheel_contents;
extern const struct af_embedded af_embedded_taken_names;
extern const struct af_embedded af_embedded_causes; /* data/NAME.jsonl */
extern const struct af_embedded af_embedded_signatures;

/*
 * The decompressed bytes, in `arena`. Fails with NO_MEMORY, or INTERNAL when the
 * bytes were not embedded correctly.
 */
enum anyflash_status af_embedded_open(const struct af_embedded *embedded,
                                      struct af_arena *arena, struct af_span *bytes_out,
                                      struct anyflash_error *err);

#define AF_EMBEDDED_FIELDS_MAX 8u

/* A .tsv file that is read row by row; the texts are in the arena. */
struct af_embedded_rows {
    char *at;
    char *end;
    size_t field_count; /* per row */
    const char *fields[AF_EMBEDDED_FIELDS_MAX];
};

/*
 * Opens a .tsv file: rows of `field_count` tab-separated texts; lines that start
 * with '#' are skipped. False when memory runs out (the arena has failed).
 */
bool af_embedded_rows_open(const struct af_embedded *embedded, size_t field_count,
                           struct af_arena *arena, struct af_embedded_rows *rows_out);

/* Reads the next row into rows->fields; false at the end. */
bool af_embedded_row_next(struct af_embedded_rows *rows);

#endif
