/*
 * params.c: the members of the kernels' parameters, with their places.
 */
#include "engine/gpu/params.h"

#include <stddef.h>

#define MEMBER(type, name) {#name, offsetof(struct type, name), sizeof((struct type *)0)->name},
#define F(name) MEMBER(af_launch_forward, name)
#define B(name) MEMBER(af_launch_backward, name)

const struct af_launch_member af_launch_members[] = {
    /* clang-format off */
    F(q_ptr) F(k_ptr) F(v_ptr) F(q_batch_stride) F(k_batch_stride) F(v_batch_stride)
    F(q_row_stride) F(k_row_stride) F(v_row_stride) F(q_head_stride) F(k_head_stride)
    F(v_head_stride) F(h) F(h_k) F(h_h_k_ratio) F(o_ptr) F(oaccum_ptr) F(o_batch_stride)
    F(o_row_stride) F(o_head_stride) F(p_ptr) F(softmax_lse_ptr) F(softmax_lseaccum_ptr)
    F(b) F(seqlen_q) F(seqlen_k) F(seqlen_knew) F(d) F(seqlen_q_rounded) F(seqlen_k_rounded)
    F(d_rounded) F(rotary_dim) F(total_q) F(scale_softmax) F(scale_softmax_log2)
    F(cu_seqlens_q) F(cu_seqlens_k) F(leftpad_k) F(seqused_k) F(blockmask) F(knew_ptr)
    F(vnew_ptr) F(knew_batch_stride) F(vnew_batch_stride) F(knew_row_stride)
    F(vnew_row_stride) F(knew_head_stride) F(vnew_head_stride) F(rotary_cos_ptr)
    F(rotary_sin_ptr) F(cache_batch_idx) F(block_table) F(block_table_batch_stride)
    F(page_block_size) F(p_dropout) F(p_dropout_in_uint8_t) F(rp_dropout)
    F(scale_softmax_rp_dropout) F(window_size_left) F(window_size_right) F(softcap)
    F(philox_args) F(rng_state) F(is_bf16) F(is_causal) F(is_seqlens_k_cumulative)
    F(is_rotary_interleaved) F(num_splits) F(alibi_slopes_ptr) F(alibi_slopes_batch_stride)
    F(unpadded_lse) F(seqlenq_ngroups_swapped)
    B(do_ptr) B(dq_ptr) B(dk_ptr) B(dv_ptr) B(dq_accum_ptr) B(dk_accum_ptr) B(dv_accum_ptr)
    B(do_batch_stride) B(do_row_stride) B(do_head_stride) B(dq_batch_stride)
    B(dk_batch_stride) B(dv_batch_stride) B(dq_row_stride) B(dk_row_stride) B(dv_row_stride)
    B(dq_head_stride) B(dk_head_stride) B(dv_head_stride) B(dsoftmax_sum) B(deterministic)
    B(dq_accum_split_stride)
    /* clang-format on */
};

const unsigned af_launch_member_count = sizeof af_launch_members / sizeof af_launch_members[0];
