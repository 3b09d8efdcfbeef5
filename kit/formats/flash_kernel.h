/*
 * flash_kernel.h: what a FlashAttention kernel computes, parsed from its mangled
 * name, and which of these kernels a library has for which GPUs.
 *
 * FlashAttention 2 compiles one translation unit per operation, head dimension,
 * data type and causality; builds may leave some out ("slim" builds), and then a
 * call with such a head dimension fails although the library loads.
 *
 * Source: Itanium C++ ABI, chapter 5.1 (mangling); the templates of
 * flash_fwd_kernel.h and flash_bwd_kernel.h, versions 2.0 to 2.8, and of hopper/
 * for FlashAttention 3.
 */
#ifndef AF_KIT_FORMATS_FLASH_KERNEL_H
#define AF_KIT_FORMATS_FLASH_KERNEL_H

#include "kit/formats/fatbin.h"

enum af_flash_operation {
    AF_FLASH_FORWARD,
    AF_FLASH_FORWARD_SPLIT, /* split over keys: decoding, paged caches */
    AF_FLASH_COMBINE,       /* joins the splits */
    AF_FLASH_BACKWARD,
    AF_FLASH_BACKWARD_HELP /* before and after the backward pass: sums, conversions */
};

enum af_flash_feature {
    AF_FLASH_CAUSAL = 1,
    AF_FLASH_DROPOUT = 2,
    AF_FLASH_LOCAL = 4, /* a window */
    AF_FLASH_ALIBI = 8,
    AF_FLASH_SOFTCAP = 16,
    AF_FLASH_APPEND = 32 /* writes new keys into the cache */
};

struct af_flash_kernel {
    enum af_flash_operation operation;
    int generation;    /* 2 or 3: FlashAttention 2 or 3 */
    int head_dim;      /* -1: not in its name */
    const char *dtype; /* "fp16", "bf16", "e4m3", static; NULL: not in its name */
    unsigned features; /* bits of enum af_flash_feature; FlashAttention 2 only */
    /*
     * SM for which the kernel has a body; for others it is an empty stub. 0: any
     * SM. FlashAttention 3 guards its kernels this way.
     */
    int sm_min;
    int sm_max;
};

/* Returns false when the mangled name is not a FlashAttention kernel. */
bool af_flash_kernel_parse(const char *mangled, struct af_flash_kernel *kernel_out);

/* "flash_fwd", "flash_fwd_split", "flash_combine", "flash_bwd", "flash_bwd_help". */
const char *af_flash_operation_text(enum af_flash_operation operation);

/* All kernels of one library with the same operation, head dimension and type. */
struct af_flash_family {
    struct af_flash_kernel kernel; /* features: union over all instances */
    size_t kernel_count;           /* distinct names */
    const uint32_t *containers;    /* containers that have them, ascending */
    size_t container_count;
};

struct af_flash_kernels {
    const struct af_flash_family
        *families; /* sorted by operation, guard, type, head dimension */
    size_t family_count;
    size_t kernel_count;    /* kernels of any kind that were found */
    size_t container_count; /* containers whose kernels were read */
    const char *problem;    /* why some may be missing; NULL: none are */
};

/*
 * Reads the FlashAttention kernels of a file whose GPU code was read. Only the
 * cheapest image of each container is read: all images of a container are the
 * same source compiled for several targets. `name`, scrubbed, is for errors. Fails
 * with LIMIT for too many kernels; `problem` names images that do not decompress.
 */
enum anyflash_status af_flash_kernels_read(struct af_arena *arena, struct af_span file,
                                           const char *name, const struct af_gpu_code *code,
                                           struct af_flash_kernels *out,
                                           struct anyflash_error *err);

/* "flash_fwd hdim128 bf16"; at most 64 bytes. */
#define AF_FLASH_FAMILY_TEXT 64u
const char *af_flash_family_text(const struct af_flash_family *family,
                                 char text[AF_FLASH_FAMILY_TEXT]);

#endif
