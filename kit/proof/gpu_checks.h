/*
 * gpu_checks.h: does this GPU code run on these GPUs with this driver? These are the last three
 * checks of a proof: gpu-code, ptx-driver, compression-driver.
 *
 * A GPU is covered when every translation unit that holds kernels has an image that the GPU can
 * load: SASS for its own SM or a compatible one, else PTX that the driver can compile. Units
 * compiled only for one other SM or family (for example "sm_90a" alone) are not meant for this
 * GPU and are not counted, unless all units are like that.
 *
 * Where the kernels' names are known, FlashAttention kernels are checked family by family
 * (FlashAttention 3 has units for one architecture only, by design): a family is covered when
 * one unit that holds it has a fitting image whose code is not empty. Which image runs where is
 * decided in fit/gpu_targets.h.
 */
#ifndef AF_KIT_PROOF_GPU_CHECKS_H
#define AF_KIT_PROOF_GPU_CHECKS_H

#include "kit/fit/view.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/proof/proof.h"

/* How well the code covers one GPU. */
struct af_proof_gpu_coverage {
    int sm;           /* 89; -1: the GPU's SM is not known */
    const char *name; /* of the GPU, or NULL */
    enum af_answer runs;
    size_t sass_count; /* translation units covered by SASS */
    size_t ptx_count;  /* translation units covered by PTX only */
    /* translation units for which this is not decided, see fit/gpu_targets.h */
    size_t open_count;
    size_t lacking_count; /* translation units that have no image for this GPU */
    size_t unit_count;    /* translation units that hold kernels, without special_count */
    /* translation units for other GPUs: all their code is for one SM or family */
    size_t special_count;
    const char *best; /* the target that covers the most units: "sm_80"; or NULL */
    int ptx_major;    /* highest PTX ISA that ptx_count needs; 0: none */
    int ptx_minor;
    size_t zstd_count; /* units whose chosen image is compressed with zstd */
    /* Kernel families that no unit covers; texts as from af_flash_family_text(). */
    struct af_texts lacking_families; /* only the first ones; the next field counts all */
    size_t lacking_family_count;
    size_t open_family_count; /* families for which this is not decided */
};

/*
 * How `code` covers a GPU of SM `sm`; `kernels` may be NULL. The driver is not considered.
 * Texts are in the arena. In gpu_cover.c.
 */
void af_proof_gpu_cover(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                        int sm, struct af_arena *arena, struct af_proof_gpu_coverage *out);

#define AF_PROOF_GPU_CHECKS 3

/*
 * Makes the checks GPU_CODE, PTX_DRIVER and COMPRESSION_DRIVER for every GPU that the view
 * shows. `code` is NULL if the GPU code was not read. Without a GPU, GPU_CODE is unknown and
 * its evidence lists the targets in the code. Texts are in the arena.
 */
void af_proof_gpu(const struct af_gpu_code *code, const struct af_flash_kernels *kernels,
                  const struct af_view *view, struct af_arena *arena,
                  struct af_proof_check checks[AF_PROOF_GPU_CHECKS]);

#endif
