/*
 * fatbin.h: the GPU code inside a program or library: which images, for which
 * GPUs, compiled by which CUDA, with which compression.
 *
 * nvcc puts one container (a "fatbin") per translation unit into section
 * .nv_fatbin; each holds one image per target: SASS (a cubin, machine code of
 * one SM), PTX (text for the driver's compiler), LTO-IR or an unknown kind.
 * Everything here comes from headers: payloads are not read (except for cubins
 * so small that they may be empty), so a mapped library of a gigabyte costs a few
 * thousand pages.
 *
 * Containers of __nv_relfatbin (objects for a later device link, which no driver
 * loads) are counted separately. Header sizes are read from the headers; unknown
 * kinds are listed by number. Without section headers the loaded segments are
 * searched for containers whose last image ends exactly at the container's end.
 *
 * There is no public specification; the layout is what nvcc 11.8 to 13.5 write.
 * Source: docs/reference/fatbin.md.
 */
#ifndef AF_KIT_FORMATS_FATBIN_H
#define AF_KIT_FORMATS_FATBIN_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* Images beyond this count are not listed, and `problem` says so. */
#define AF_GPU_IMAGES_MAX 500000u

enum af_gpu_kind { AF_GPU_SASS, AF_GPU_PTX, AF_GPU_LTOIR, AF_GPU_OTHER };
enum af_gpu_packing { AF_GPU_RAW, AF_GPU_LZ4, AF_GPU_ZSTD };

/* The name of a kind: "SASS", "PTX", "LTO-IR" or "other"; static storage. */
const char *af_gpu_kind_text(enum af_gpu_kind kind);

struct af_gpu_image {
    uint64_t offset;        /* offset of its stored bytes in the file */
    uint64_t stored_bytes;  /* in the file, without padding */
    uint64_t raw_bytes;     /* decompressed, as its header says; untrusted */
    uint32_t container;     /* index into containers */
    int sm;                 /* 90 */
    char suffix;            /* 'a': this SM only; 'f': its family; '\0' */
    uint16_t kind_number;   /* as in the file, if AF_GPU_OTHER */
    uint16_t version_major; /* PTX: ISA version "9.0"; else of the cubin or IR */
    uint16_t version_minor;
    enum af_gpu_kind kind;
    enum af_gpu_packing packing;
    enum af_answer has_entry; /* NO: a cubin without kernels; UNKNOWN: not checked */
};

/* One translation unit. Its images are consecutive. */
struct af_gpu_container {
    uint64_t offset; /* offset in the file */
    uint32_t image_first;
    uint32_t image_count;
    bool is_relocatable; /* in __nv_relfatbin: never loaded */
};

/* All images of one kind and target: "SASS sm_90a", "PTX compute_90 of ISA 8.4". */
struct af_gpu_target {
    enum af_gpu_kind kind;
    uint16_t kind_number;
    int sm;
    char suffix;
    uint16_t version_major; /* highest; PTX only */
    uint16_t version_minor;
    size_t image_count;
    size_t container_count;
    size_t lz4_count;
    size_t zstd_count;
    uint64_t stored_bytes;
};

/*
 * The GPU code of one file. No containers means no GPU code. Lists and counts
 * are of loadable code; `relocatable_*` counts the rest. Cubins without kernels
 * (device links leave an empty sm_75 one) are in `images` but not in `targets`.
 */
struct af_gpu_code {
    const struct af_gpu_container *containers;
    size_t container_count;
    const struct af_gpu_image *images;
    size_t image_count;
    const struct af_gpu_target *targets; /* SASS, PTX, LTO-IR, other; each sorted by SM */
    size_t target_count;
    size_t empty_count; /* cubins without kernels */
    size_t relocatable_container_count;
    size_t relocatable_image_count;
    int64_t wrapper_count; /* per .nvFatBinSegment; -1: no such section */
    const char *problem;   /* why the lists may be incomplete; NULL: complete */
};

/*
 * Reads the GPU code of an ELF file or, with `is_section`, of section .nv_fatbin
 * alone; `name`, scrubbed, is for errors. Fails with DATA when it is not an ELF
 * file. Damaged containers are not a failure: they are left
 * out and `problem` says so. Lists are in the arena.
 */
enum anyflash_status af_gpu_code_read(struct af_arena *arena, struct af_span bytes,
                                      const char *name, bool is_section,
                                      struct af_gpu_code *out, struct anyflash_error *err);

/* "sm_90a", "compute_90", "lto_80", "kind 64 of 100": at most 32 bytes. */
#define AF_GPU_TARGET_TEXT 32u
const char *af_gpu_target_text(const struct af_gpu_target *target,
                               char text[AF_GPU_TARGET_TEXT]);

/*
 * The kernels inside a cubin, the ELF file that holds GPU machine code. A kernel is a symbol of
 * type FUNC whose st_other has bit 0x10, in the cubin's own symbol table; device functions lack
 * the bit. Both layouts are read: CUDA 12 (EI_OSABI 51) and CUDA 13 (65); they differ only in
 * e_flags, which is not used here. Of an uncompressed cubin, only headers and names are read.
 */

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
 * Decompresses one image into memory that the caller frees with af_memory_free().
 * Fails with LIMIT above `max_bytes`, and with DATA when the result does not match
 * the header.
 */
enum anyflash_status af_gpu_image_unpack(struct af_span file, const char *name,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err);

/*
 * Private to this room.
 */

/* Fills in the targets and counts of `code` from its containers and images. */
void af_gpu_targets_find(struct af_arena *arena, struct af_gpu_code *code);

#endif
