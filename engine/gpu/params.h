/*
 * params.h: the parameters of FlashAttention-2's kernels, member for member as flash.h of
 * flash-attn declares them. The pack of kernels holds the offsets that its compiler saw, and
 * pack.c compares them with these.
 */
#ifndef AF_ENGINE_GPU_PARAMS_H
#define AF_ENGINE_GPU_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

/* Random numbers of dropout; with `captured` the seed and the offset are read on the device. */
struct af_launch_random {
    union {
        uint64_t value;
        const int64_t *pointer;
    } seed, offset;
    uint32_t more; /* is added to an offset on the device */
    bool captured;
};

/* Forward. Pointers are to memory of the device, strides count elements. */
struct af_launch_forward {
    void *q_ptr, *k_ptr, *v_ptr;
    int64_t q_batch_stride, k_batch_stride, v_batch_stride;
    int64_t q_row_stride, k_row_stride, v_row_stride;
    int64_t q_head_stride, k_head_stride, v_head_stride;
    int32_t h, h_k, h_h_k_ratio;
    void *o_ptr, *oaccum_ptr;
    int64_t o_batch_stride, o_row_stride, o_head_stride;
    void *p_ptr, *softmax_lse_ptr, *softmax_lseaccum_ptr;
    int32_t b, seqlen_q, seqlen_k, seqlen_knew, d;
    int32_t seqlen_q_rounded, seqlen_k_rounded, d_rounded, rotary_dim, total_q;
    float scale_softmax, scale_softmax_log2;
    const int32_t *cu_seqlens_q, *cu_seqlens_k, *leftpad_k, *seqused_k, *blockmask;
    void *knew_ptr, *vnew_ptr;
    int64_t knew_batch_stride, vnew_batch_stride;
    int64_t knew_row_stride, vnew_row_stride;
    int64_t knew_head_stride, vnew_head_stride;
    const void *rotary_cos_ptr, *rotary_sin_ptr;
    const int32_t *cache_batch_idx, *block_table;
    int64_t block_table_batch_stride;
    int32_t page_block_size;
    float p_dropout; /* of keeping an element */
    uint8_t p_dropout_in_uint8_t;
    float rp_dropout, scale_softmax_rp_dropout;
    int32_t window_size_left, window_size_right;
    float softcap;
    struct af_launch_random philox_args;
    uint64_t *rng_state;
    bool is_bf16, is_causal, is_seqlens_k_cumulative, is_rotary_interleaved;
    int32_t num_splits;
    const void *alibi_slopes_ptr;
    int64_t alibi_slopes_batch_stride;
    bool unpadded_lse, seqlenq_ngroups_swapped;
};

/* Backward: all of forward, and the gradients. */
struct af_launch_backward {
    struct af_launch_forward forward;
    void *do_ptr, *dq_ptr, *dk_ptr, *dv_ptr;
    void *dq_accum_ptr, *dk_accum_ptr, *dv_accum_ptr;
    int64_t do_batch_stride, do_row_stride, do_head_stride;
    int64_t dq_batch_stride, dk_batch_stride, dv_batch_stride;
    int64_t dq_row_stride, dk_row_stride, dv_row_stride;
    int64_t dq_head_stride, dk_head_stride, dv_head_stride;
    void *dsoftmax_sum;
    bool deterministic;
    int64_t dq_accum_split_stride;
};

/* A member as the pack names it. */
struct af_launch_member {
    const char *name;
    uint32_t offset, size;
};

/* Every member of the backward parameters, which begin with those of forward. */
extern const struct af_launch_member af_launch_members[];
extern const unsigned af_launch_member_count;

#endif
