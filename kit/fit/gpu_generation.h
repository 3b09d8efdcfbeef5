/*
 * gpu_generation.h: what is known about a generation of NVIDIA's GPUs: one row of
 * data/gpu_generations.tsv, where the sources are. SMs are numbers: 8.9 is 89.
 */
#ifndef AF_KIT_FIT_GPU_GENERATION_H
#define AF_KIT_FIT_GPU_GENERATION_H

#include <stdbool.h>

struct af_sm_generation {
    bool is_integrated;  /* part of a system on a chip: desktop code may not run on it */
    int same_chip;       /* another number of this chip, as 110 of 101; 0: none */
    int build_target;    /* of flash-attn's own build for it; 0: it has none */
    int first_cuda;      /* 128: a torch of an older CUDA has no code for it; 0: not limited */
    const char *package; /* the FlashAttention made for it: "flash_attn_3"; NULL: version 2 */
    bool prefers_cudnn;  /* torch's scaled_dot_product_attention tries cuDNN first */
};

/*
 * The generation of `sm`. An SM that no row has is taken for the nearest older one of its major
 * version, with is_integrated and same_chip unset; all is 0 if there is none.
 */
struct af_sm_generation af_sm_generation_of(int sm);

#endif
