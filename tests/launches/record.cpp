/*
 * record.cpp: keeps what FlashAttention-2's kernels are given, for test_launches.py to read:
 * functions in the place of all kernels.
 */
#include <string>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>
#include <cutlass/numeric_types.h>

#include "flash.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace FLASH_NAMESPACE;

struct launch {
    std::string name, bytes;
};
static std::vector<launch> launches;

template <typename T, typename Params>
static void keep(const char *pass, int dim, bool causal, const Params &params)
{
    const bool is_bf16 = std::is_same<T, cutlass::bfloat16_t>::value;
    launches.push_back({std::string(pass) + " " + std::to_string(dim) +
                            (is_bf16 ? " bf16" : " fp16") + (causal ? " causal" : ""),
                        std::string((const char *)&params, sizeof params)});
}

namespace FLASH_NAMESPACE {
#define KERNELS(dim, type, causal)                                                             \
    template <> void run_mha_fwd_<type, dim, causal>(Flash_fwd_params & params, cudaStream_t)  \
    {                                                                                          \
        keep<type>("forward", dim, causal, params);                                            \
    }                                                                                          \
    template <>                                                                                \
    void run_mha_fwd_splitkv_dispatch<type, dim, causal>(Flash_fwd_params & params,            \
                                                         cudaStream_t)                         \
    {                                                                                          \
        keep<type>("split", dim, causal, params);                                              \
    }                                                                                          \
    template <> void run_mha_bwd_<type, dim, causal>(Flash_bwd_params & params, cudaStream_t)  \
    {                                                                                          \
        keep<type>("backward", dim, causal, params);                                           \
    }
#define HEAD_DIM(dim)                                                                          \
    KERNELS(dim, cutlass::half_t, false)                                                       \
    KERNELS(dim, cutlass::half_t, true)                                                        \
    KERNELS(dim, cutlass::bfloat16_t, false)                                                   \
    KERNELS(dim, cutlass::bfloat16_t, true)
HEAD_DIM(32)
HEAD_DIM(64)
HEAD_DIM(96)
HEAD_DIM(128)
HEAD_DIM(192)
HEAD_DIM(256)
} // namespace FLASH_NAMESPACE

EXPORT size_t take_launch(const char **name_out, const char **bytes_out)
{
    static launch taken;
    if (launches.empty())
        return 0;
    taken = launches.front();
    launches.erase(launches.begin());
    *name_out = taken.name.c_str();
    *bytes_out = taken.bytes.data();
    return taken.bytes.size();
}

static const char *kind(const void *)
{
    return "pointer";
}

static const char *kind(float)
{
    return "float";
}

static const char *kind(const at::PhiloxCudaState &)
{
    return "random";
}

template <typename T>
static typename std::enable_if<std::is_integral<T>::value, const char *>::type kind(T)
{
    return "whole";
}

/* "name offset size kind" of each member. */
EXPORT const char *members()
{
    static Flash_bwd_params params;
    static std::string text;
#define MEMBER(name)                                                                           \
    text += #name " " + std::to_string((char *)&params.name - (char *)&params) + " " +         \
            std::to_string(sizeof params.name) + " " + kind(params.name) + "\n";
    if (!text.empty())
        return text.c_str();
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
        return text.c_str();
}
