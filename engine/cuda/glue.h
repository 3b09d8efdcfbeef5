/*
 * glue.h: what the files of this folder share. Together they implement anyflash_cuda.h
 * with the kernels of FlashAttention-2, and do what its flash_api.cpp does with torch: they
 * check a call, fill the kernels' parameters, lay out the workspace and choose a kernel.
 *
 *   problem.cpp   checks a call
 *   forward.cpp   parameters and workspace of forward
 *   backward.cpp  parameters and workspace of backward
 *   kernels.cpp   knows which kernels this build contains, and calls them
 *   fill.cu       small kernels of our own
 *   builtins.cpp  Python functions over all of it; handles.h: their tensors
 *
 * These files are compiled by `anyflash build`, with the published sources of flash-attn.
 */
#ifndef AF_ENGINE_CUDA_GLUE_H
#define AF_ENGINE_CUDA_GLUE_H

#include <c10/cuda/CUDAException.h>

#include "anyflash/anyflash_cuda.h"
#include "flash.h"

typedef FLASH_NAMESPACE::Flash_fwd_params af_forward_params;
typedef FLASH_NAMESPACE::Flash_bwd_params af_backward_params;

/* Fills *err unless it is NULL; returns `status`. */
enum anyflash_status af_glue_fail(struct anyflash_error *err, enum anyflash_status status,
                                  const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The status for an error code of CUDA; *err receives CUDA's text. */
enum anyflash_status af_glue_failed(struct anyflash_error *err, cudaError_t code);

/* problem.cpp */

/* A call that was checked: the kernels support it. */
struct af_glue_problem {
    struct anyflash_attend_args a;
    struct anyflash_cuda_args cuda;
    bool packed; /* cu_seqlens_q and cu_seqlens_k are given */
    bool paged;  /* block_table is given */
    bool cache;  /* not packed, and lengths, pages, batch indices or splits are given */
    bool causal;
    int window_left, window_right; /* as flash-attn passes them to its kernels */
    /*
     * One query per sequence and grouped heads: the query heads of a key head are taken as
     * rows, [B, G, H / G, D], so that they share the loads of keys.
     */
    bool grouped;
    int rows, heads; /* Sq and H; if grouped, H / G and G */
    int device;
    int multiprocessors;
};

/* Checks the arguments and fills *problem. Fails as anyflash_cuda_attend(). */
enum anyflash_status af_glue_problem_init(struct af_glue_problem *problem,
                                          const struct anyflash_attend_args *args,
                                          const struct anyflash_cuda_args *cuda, bool backward,
                                          struct anyflash_error *err);

/*
 * Returns the status of `body`, which runs with the problem's device as the current one, or
 * the status for an error of CUDA that it throws.
 */
template <typename Body>
enum anyflash_status af_glue_on_device(const struct af_glue_problem *problem, const Body &body,
                                       struct anyflash_error *err)
{
    enum anyflash_status status;
    int before = problem->device;
    try {
        C10_CUDA_CHECK(cudaGetDevice(&before));
        if (before != problem->device)
            C10_CUDA_CHECK(cudaSetDevice(problem->device));
        status = body();
    } catch (const af_glue_failure &failure) {
        status = af_glue_failed(err, failure.code);
    }
    if (before != problem->device)
        (void)cudaSetDevice(before);
    return status;
}

/* The smallest multiple of `multiple` that is at least `n`. */
static inline int af_glue_round_up(int64_t n, int multiple)
{
    return (int)((n + multiple - 1) / multiple * multiple);
}

/* The head size of the kernel's tiles: D, rounded up. */
static inline int af_glue_head_dim(const struct af_glue_problem *problem)
{
    return af_glue_round_up(problem->a.head_dim, problem->a.head_dim <= 128 ? 32 : 64);
}

/* Rows of q, and of k: in each batch, or in all packed sequences together. */
static inline int64_t af_glue_rows(const struct anyflash_attend_args *a)
{
    return a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
}

static inline int64_t af_glue_keys(const struct anyflash_attend_args *a)
{
    return a->cu_seqlens_k != NULL && a->block_table == NULL ? a->total_k : a->k_len;
}

/* Hands out blocks of the workspace, aligned to 256 bytes; if memory is NULL, only counts. */
struct af_glue_workspace {
    char *memory;
    size_t used_bytes;
};

void *af_glue_workspace_take(struct af_glue_workspace *workspace, size_t bytes);

/* forward.cpp */

/* The parameters that forward and backward have in common. */
void af_glue_common_params(const struct af_glue_problem *problem, af_forward_params *params);

/* kernels.cpp */

/* Fails with UNSUPPORTED, naming the kernel or feature, if this build lacks one. */
enum anyflash_status af_glue_kernels_check(const struct af_glue_problem *problem, bool backward,
                                           struct anyflash_error *err);
void af_glue_run_forward(af_forward_params *params, bool split, cudaStream_t stream);
void af_glue_run_backward(af_backward_params *params, cudaStream_t stream);

/* fill.cu. They throw af_glue_failure. */

/* Writes `value` to `count` floats. */
void af_glue_fill(float *data, int64_t count, float value, cudaStream_t stream);

/* Writes 0 to [batch, rows, heads, dim] elements of 2 bytes. */
void af_glue_clear(const struct anyflash_tensor *tensor, int64_t batch, int64_t rows,
                   int64_t heads, int64_t dim, cudaStream_t stream);

/*
 * Sums the gradients of the query heads that share a key head, in float: `expanded` is
 * contiguous [batch, rows, heads * group, dim], `tensor` [batch, rows, heads, dim].
 */
void af_glue_sum_groups(const struct anyflash_tensor *tensor, const void *expanded,
                        int64_t batch, int64_t rows, int64_t heads, int64_t group, int64_t dim,
                        cudaStream_t stream);

#endif
