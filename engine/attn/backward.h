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

/*
 * One piece: keys [key_begin, key_end) of key head `kv_head` of a sequence
 * against all its rows (numbered as in struct af_forward_task). dk and dv of
 * these keys are final and written, and what they give to dbias is added.
 * `partial_dq` NULL: dq is final too and goes where it belongs; else this
 * piece's share, without the factor scale, goes there: f32 [rows, D].
 */
struct af_backward_task {
    const struct af_backward_problem *problem;
    struct af_sequence sequence;
    int64_t kv_head;
    int64_t rows;
    int64_t key_begin;
    int64_t key_end;
    float *partial_dq;
};

struct af_backward_kernel {
    const char *name;
    enum anyflash_dtype dtype;
    uint32_t needs;    /* one bit of enum af_cpu_feature */
    uint32_t features; /* of enum af_feature: what it can do */
    /* For tasks of at most `rows` rows and `keys` keys. */
    size_t (*scratch_bytes)(const struct af_backward_problem *problem, int64_t rows,
                            int64_t keys);
    void (*run)(const struct af_backward_task *task, struct af_scratch scratch);
};

/* All kernels compiled in, worst to best; defined by cpu/manifest.c. Static storage. */
const struct af_backward_kernel *const *af_backward_kernels(size_t *count_out);

#endif
