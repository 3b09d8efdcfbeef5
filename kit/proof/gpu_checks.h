/*
 * gpu_checks.h: does this GPU code run on these GPUs with this driver? The last
 * three checks of a proof: gpu-code, ptx-driver, compression-driver.
 *
 * A GPU is served when every translation unit that holds kernels has an image that
 * the GPU can load: SASS of its own or a compatible SM, else PTX that the driver can
 * compile. Units whose code is all for one other SM or family ("sm_90a" alone) are
 * not meant for it and do not count, unless all are such.
 *
 * Where the kernels' names are known, FlashAttention kernels are checked family by
 * family (FlashAttention 3 has units for one architecture only, by design): a family
 * is served when one unit that holds it has a fitting image whose code is not empty.
 * Which image runs where: fit/gpu_targets.h.
 */
#ifndef AF_KIT_PROOF_GPU_CHECKS_H
#define AF_KIT_PROOF_GPU_CHECKS_H

#include "kit/fit/view.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/proof/proof.h"

/* How one GPU is served. */
struct af_proof_gpu_coverage {
    int sm;           /* 89; -1: the GPU's is not known */
    const char *name; /* of the GPU, or NULL */
    enum af_answer runs;
    size_t sass_count;    /* translation units served by SASS */
    size_t ptx_count;     /* by PTX only */
    size_t open_count;    /* not decided, see fit/gpu_targets.h */
    size_t lacking_count; /* not at all */
    size_t unit_count;    /* all that hold kernels, without the next */
    size_t special_count; /* meant for other GPUs: all code is for one SM or family */
    const char *best;     /* what most units are served by: "sm_80"; or NULL */
    int ptx_major;        /* highest PTX ISA that ptx_count needs; 0: none */
    int ptx_minor;
    size_t zstd_count; /* units whose serving image is packed with zstd */
    /* Families that no unit serves; texts as af_flash_family_text(). */
    struct af_texts lacking_families; /* the first of them */
    size_t lacking_family_count;
    size_t open_family_count; /* not settled */
};

/*
 * How `code` serves a GPU of SM `sm`; `kernels` may be NULL. The driver is not
 * asked. Texts are in the arena, whose failure is the caller's to look at.
 */
void af_proof_gpu_cover(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                        int sm, struct af_arena *arena, struct af_proof_gpu_coverage *out);

#define AF_PROOF_GPU_CHECKS 3

/*
 * Makes the checks GPU_CODE, PTX_DRIVER and COMPRESSION_DRIVER for every GPU
 * that the view shows. `code` NULL: it was not read. Without a GPU the first is
 * unknown and says what is there. Texts are in the arena, whose failure is the
 * caller's to look at.
 */
void af_proof_gpu(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                  const struct af_view *view, const struct af_tables *tables,
                  struct af_arena *arena, struct af_proof_check checks[AF_PROOF_GPU_CHECKS]);

#endif
