/*
 * launch.h: a call of anyflash_cuda.h as launches of FlashAttention-2's kernels. What
 * flash-attn's flash_api.cpp and its launch templates do with torch and templates is here
 * checks, parameters, a workspace and a choice of kernels; nothing in this file's functions
 * needs a GPU.
 *
 *   call_check.c         checks a call
 *   call_params.c        what forward and backward have in common
 *   forward_launches.c   forward: kernels, split keys, the merge of their parts
 *   backward_launches.c  backward, and the sum over grouped heads
 *   launch_name.c        the name of a kernel in the pack
 */
#ifndef AF_ENGINE_GPU_LAUNCH_H
#define AF_ENGINE_GPU_LAUNCH_H

#include "anyflash/anyflash_cuda.h"
#include "engine/gpu/params.h"

#define AF_LAUNCH_NAME_BYTES 128
#define AF_LAUNCHES_MAX 6
#define AF_LAUNCH_WORDS_MAX 10

/* What the choice of kernels depends on. */
struct af_launch_device {
    int32_t number;
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t shared_per_block; /* bytes, the most that a kernel may ask for */
    int32_t shared_per_multiprocessor;
};

enum af_launch_function {
    AF_LAUNCH_FORWARD,
    AF_LAUNCH_SPLIT,
    AF_LAUNCH_COMBINE,
    AF_LAUNCH_DOT,
    AF_LAUNCH_BACKWARD,
    AF_LAUNCH_CONVERT,
    AF_LAUNCH_FILL, /* these three are small kernels of our own */
    AF_LAUNCH_CLEAR,
    AF_LAUNCH_SUM
};

/* A kernel: its function and template arguments. All bytes count, so that two compare. */
struct af_launch_kernel {
    uint8_t function; /* enum af_launch_function */
    uint8_t is_bf16;
    uint8_t dim, rows, keys; /* of a tile, divided by 8 */
    uint8_t warps;
    uint8_t atoms[3];             /* backward: the atom layouts of S and dP, dK and dV, dQ */
    uint8_t v_in_regs, no_double; /* backward */
    uint8_t more[8];              /* the function's own template arguments */
    uint8_t more_count;
};

struct af_launch {
    struct af_launch_kernel kernel;
    uint32_t grid[3];
    uint32_t threads;
    uint32_t shared_bytes;
    int32_t splits;                     /* CONVERT: the second parameter */
    int64_t words[AF_LAUNCH_WORDS_MAX]; /* parameters of a small kernel */
    int32_t word_count;
};

/* What a call starts, in this order: memory set to 0, then the kernels. */
struct af_launch_list {
    void *clear; /* or NULL */
    size_t clear_bytes;
    struct af_launch items[AF_LAUNCHES_MAX];
    int32_t count;
    size_t workspace_bytes;
    bool backward;                    /* which of the parameters is in use */
    struct af_launch_backward params; /* the first parameter of all but small kernels */
};

/* A call that was checked: the kernels support it. */
struct af_launch_call {
    struct anyflash_attend_args a;
    struct anyflash_cuda_args cuda;
    struct anyflash_attend_backward_args gradients; /* of a backward call */
    bool backward;
    bool packed; /* cu_seqlens_q and cu_seqlens_k are given */
    bool paged;  /* block_table is given */
    bool cache;  /* not packed, and lengths, pages, batch indices or splits are given */
    bool causal;
    int32_t window_left, window_right; /* as flash-attn passes them to its kernels */
    /*
     * One query per sequence and grouped heads: the query heads of a key head are taken as
     * rows, [B, G, H / G, D], so that they share the loads of keys.
     */
    bool grouped;
    int32_t rows, heads; /* Sq and H; if grouped, H / G and G */
};

/* Check the arguments and fill *call. Fail as anyflash_cuda_attend(). */
enum anyflash_status af_launch_check_forward(struct af_launch_call *call,
                                             const struct anyflash_attend_args *args,
                                             const struct anyflash_cuda_args *cuda,
                                             struct anyflash_error *err);
enum anyflash_status af_launch_check_backward(struct af_launch_call *call,
                                              const struct anyflash_attend_backward_args *args,
                                              const struct anyflash_cuda_args *cuda,
                                              struct anyflash_error *err);

/* Fails with ARGUMENT if the workspace cannot be one. */
enum anyflash_status af_launch_check_workspace(const struct anyflash_cuda_args *cuda,
                                               struct anyflash_error *err);

/*
 * Fills *list for this device. Without a workspace in the call it counts the bytes only; with
 * one that is too small it fails with NO_MEMORY. Fails with UNSUPPORTED if no kernel serves
 * this device.
 */
enum anyflash_status af_launch_make(const struct af_launch_call *call,
                                    const struct af_launch_device *device,
                                    struct af_launch_list *list, struct anyflash_error *err);

/* The name in the pack, such as "flash_fwd_kernel 128 128 64 4 0 0 bf16 0 1 0 0 1 1 0 0". */
void af_launch_name(const struct af_launch_kernel *kernel, char name[AF_LAUNCH_NAME_BYTES]);

/* For the files of this folder. */

/* The smallest multiple of `multiple` that is at least `n`. */
static inline int64_t af_launch_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Rows of q, and of k: in each batch, or in all packed sequences together. */
static inline int64_t af_launch_q_rows(const struct anyflash_attend_args *a)
{
    return a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
}

static inline int64_t af_launch_k_rows(const struct anyflash_attend_args *a)
{
    return a->cu_seqlens_k != NULL && a->block_table == NULL ? a->total_k : a->k_len;
}

/* Hands out blocks of the workspace, aligned to 256 bytes; if memory is NULL, only counts. */
struct af_launch_workspace {
    char *memory;
    size_t used_bytes;
};

void *af_launch_take(struct af_launch_workspace *workspace, int64_t bytes);

/* The parameters that forward and backward have in common. */
void af_launch_common(const struct af_launch_call *call, struct af_launch_forward *params);

/* Adds a launch and returns it; the kernel has the call's type and the tile's head size. */
struct af_launch *af_launch_add(struct af_launch_list *list, enum af_launch_function function,
                                int64_t blocks, int64_t y, int64_t z, uint32_t threads);

/* Add the small kernels. They write `value` to floats, 0 to a tensor, and sums of groups. */
void af_launch_add_fill(struct af_launch_list *list, void *data, int64_t count, float value);
void af_launch_add_clear(struct af_launch_list *list, const struct anyflash_tensor *tensor,
                         int64_t batch, int64_t rows, int64_t heads, int64_t dim);
void af_launch_add_sum(struct af_launch_list *list, const struct anyflash_tensor *tensor,
                       const void *expanded, int64_t batch, int64_t rows, int64_t heads,
                       int64_t group, int64_t dim);

/* Fill the list; the caller has the workspace counted and checked. */
enum anyflash_status af_launch_make_forward(const struct af_launch_call *call,
                                            const struct af_launch_device *device,
                                            struct af_launch_workspace *workspace,
                                            struct af_launch_list *list,
                                            struct anyflash_error *err);
enum anyflash_status af_launch_make_backward(const struct af_launch_call *call,
                                             const struct af_launch_device *device,
                                             struct af_launch_workspace *workspace,
                                             struct af_launch_list *list,
                                             struct anyflash_error *err);

#endif
