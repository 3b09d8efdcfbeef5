/*
 * backward.h: the backward problem and its kernels, the counterpart of problem.h
 * and kernel.h.
 *
 * Work is split by key head and, if there are few of these, by chunks of keys;
 * each chunk has its own dq, and these are added in the order of the keys. The
 * split depends on shapes only.
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
