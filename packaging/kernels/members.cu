/*
 * members.cu: the layout of the kernels' parameters as their compiler sees it. Each constant is
 * {offset, size}: one for every member of Flash_bwd_params, which begins with Flash_fwd_params,
 * and one {0, size} for each struct. make_pack.py reads them in the PTX.
 */
#include <cstddef>
#include <cstdint>

#include "flash.h"

using namespace FLASH_NAMESPACE;

#pragma nv_diag_suppress 1427 /* offsetof in a struct with a base: nvcc knows it */

#define STRUCT(name, type)                                                                     \
    extern "C" __constant__ const uint32_t struct_##name[2] = {0, sizeof(type)};
#define MEMBER(name)                                                                           \
    extern "C" __constant__ const uint32_t member_##name[2] = {                                \
        offsetof(Flash_bwd_params, name), sizeof(((Flash_bwd_params *)nullptr)->name)};

STRUCT(forward, Flash_fwd_params)
STRUCT(backward, Flash_bwd_params)

// clang-format off
MEMBER(q_ptr) MEMBER(k_ptr) MEMBER(v_ptr) MEMBER(q_batch_stride) MEMBER(k_batch_stride)
MEMBER(v_batch_stride) MEMBER(q_row_stride) MEMBER(k_row_stride) MEMBER(v_row_stride)
MEMBER(q_head_stride) MEMBER(k_head_stride) MEMBER(v_head_stride) MEMBER(h) MEMBER(h_k)
MEMBER(h_h_k_ratio) MEMBER(o_ptr) MEMBER(oaccum_ptr) MEMBER(o_batch_stride)
MEMBER(o_row_stride) MEMBER(o_head_stride) MEMBER(p_ptr) MEMBER(softmax_lse_ptr)
MEMBER(softmax_lseaccum_ptr) MEMBER(b) MEMBER(seqlen_q) MEMBER(seqlen_k)
MEMBER(seqlen_knew) MEMBER(d) MEMBER(seqlen_q_rounded) MEMBER(seqlen_k_rounded)
MEMBER(d_rounded) MEMBER(rotary_dim) MEMBER(total_q) MEMBER(scale_softmax)
MEMBER(scale_softmax_log2) MEMBER(cu_seqlens_q) MEMBER(cu_seqlens_k) MEMBER(leftpad_k)
MEMBER(seqused_k) MEMBER(blockmask) MEMBER(knew_ptr) MEMBER(vnew_ptr)
MEMBER(knew_batch_stride) MEMBER(vnew_batch_stride) MEMBER(knew_row_stride)
MEMBER(vnew_row_stride) MEMBER(knew_head_stride) MEMBER(vnew_head_stride)
MEMBER(rotary_cos_ptr) MEMBER(rotary_sin_ptr) MEMBER(cache_batch_idx)
MEMBER(block_table) MEMBER(block_table_batch_stride) MEMBER(page_block_size)
MEMBER(p_dropout) MEMBER(p_dropout_in_uint8_t) MEMBER(rp_dropout)
MEMBER(scale_softmax_rp_dropout) MEMBER(window_size_left) MEMBER(window_size_right)
MEMBER(softcap) MEMBER(philox_args) MEMBER(rng_state) MEMBER(is_bf16) MEMBER(is_causal)
MEMBER(is_seqlens_k_cumulative) MEMBER(is_rotary_interleaved) MEMBER(num_splits)
MEMBER(alibi_slopes_ptr) MEMBER(alibi_slopes_batch_stride) MEMBER(unpadded_lse)
MEMBER(seqlenq_ngroups_swapped) MEMBER(do_ptr) MEMBER(dq_ptr) MEMBER(dk_ptr)
MEMBER(dv_ptr) MEMBER(dq_accum_ptr) MEMBER(dk_accum_ptr) MEMBER(dv_accum_ptr)
MEMBER(do_batch_stride) MEMBER(do_row_stride) MEMBER(do_head_stride)
MEMBER(dq_batch_stride) MEMBER(dk_batch_stride) MEMBER(dv_batch_stride)
MEMBER(dq_row_stride) MEMBER(dk_row_stride) MEMBER(dv_row_stride) MEMBER(dq_head_stride)
MEMBER(dk_head_stride) MEMBER(dv_head_stride) MEMBER(dsoftmax_sum) MEMBER(deterministic)
MEMBER(dq_accum_split_stride)
    // clang-format on
