/*
 * backward.h: the backward problem and its kernels, as problem.h and kernel.h
 * for the forward.
 *
 * Work is cut by key head and, where these are few, by chunks of keys; each
 * piece has its own dq, and pieces are added in the order of the keys. Cuts
 * depend on shapes only.
 */
#ifndef AF_ENGINE_ATTN_BACKWARD_H
#define AF_ENGINE_ATTN_BACKWARD_H

#include "engine/attn/kernel.h"

struct af_backward_problem {
    struct af_problem forward;                      /* o and lse are inputs here */
    struct anyflash_tensor dout, dq, dk, dv, dbias; /* dbias: stride 0 where it is summed */
    float *dsinks;
    const float *dlse;
};

/*
 * Checks everything and fills *problem, as af_problem_init() does; packed
 * tensors have batch_stride 0 afterwards. Fails with ARGUMENT, or with
 * UNSUPPORTED for caches.
 */
enum anyflash_status af_backward_problem_init(struct af_backward_problem *problem,
                                              const struct anyflash_attend_backward_args *args,
                                              struct anyflash_error *err);

#endif
