/*
 * forward.cpp: the parameters of the forward kernels, as mha_fwd(), mha_varlen_fwd() and
 * mha_fwd_kvcache() of flash_api.cpp fill them, and the workspace for split keys.
 */
#include "glue.h"

#include <algorithm>
#include <cmath>

#define SPLITS_MAX 128

static void set_tensors(const struct af_glue_problem *problem, af_forward_params *params)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t group = a->heads / a->kv_heads;
    params->q_ptr = a->q.data;
    params->k_ptr = a->k.data;
    params->v_ptr = a->v.data;
    params->o_ptr = a->o.data;
    /* grouped heads: what was a head is a row, the one row of a sequence disappears */
    params->q_row_stride = problem->grouped ? a->q.head_stride : a->q.row_stride;
    params->q_head_stride = problem->grouped ? group * a->q.head_stride : a->q.head_stride;
    params->o_row_stride = problem->grouped ? a->o.head_stride : a->o.row_stride;
    params->o_head_stride = problem->grouped ? group * a->o.head_stride : a->o.head_stride;
    params->k_row_stride = a->k.row_stride;
    params->k_head_stride = a->k.head_stride;
    params->v_row_stride = a->v.row_stride;
    params->v_head_stride = a->v.head_stride;
    if (!problem->packed) {
        params->q_batch_stride = a->q.batch_stride;
        params->o_batch_stride = a->o.batch_stride;
    } else if (problem->grouped) {
        params->q_batch_stride = a->q.row_stride;
        params->o_batch_stride = a->o.row_stride;
    }
    if (!problem->packed || problem->paged) {
        params->k_batch_stride = a->k.batch_stride;
        params->v_batch_stride = a->v.batch_stride;
    }
}

/* With a softcap the kernels compute scale_softmax * tanh(q.k * softcap). */
static void set_scale(const struct anyflash_attend_args *a, af_forward_params *params)
{
    const float scale =
        a->scale != ANYFLASH_SCALE_DEFAULT ? a->scale : 1.f / std::sqrt((float)a->head_dim);
    params->softcap = a->softcap > 0 ? scale / a->softcap : 0.f;
    params->scale_softmax = a->softcap > 0 ? a->softcap : scale;
    params->scale_softmax_log2 = params->scale_softmax * M_LOG2E;
}

static void set_dropout(const struct af_glue_problem *problem, af_forward_params *params)
{
    const struct anyflash_attend_args *a = &problem->a;
    params->p_dropout = 1.f - a->dropout; /* of keeping an element */
    params->p_dropout_in_uint8_t = (uint8_t)std::floor(params->p_dropout * 255.0);
    params->rp_dropout = 1.f / params->p_dropout;
    params->scale_softmax_rp_dropout = params->rp_dropout * params->scale_softmax;
    params->rng_state = problem->cuda.rng_state;
}

/* A causal mask without a window has kernels of its own. */
static void set_mask(const struct af_glue_problem *problem, af_forward_params *params)
{
    const int left = problem->window_left, right = problem->window_right;
    const int all = (int)problem->a.k_len;
    params->is_causal = left < 0 && right == 0;
    params->window_size_left = left < 0 && right >= 0 ? all : left;
    params->window_size_right = left >= 0 && right < 0 ? all : right;
    params->alibi_slopes_ptr = const_cast<float *>(problem->a.alibi_slopes);
    params->alibi_slopes_batch_stride = problem->a.alibi_batch_stride;
}

void af_glue_common_params(const struct af_glue_problem *problem, af_forward_params *params)
{
    const struct anyflash_attend_args *a = &problem->a;
    params->is_bf16 = a->q.dtype == ANYFLASH_BF16;
    set_tensors(problem, params);
    params->cu_seqlens_q = problem->grouped ? NULL : const_cast<int *>(a->cu_seqlens_q);
    params->cu_seqlens_k = const_cast<int *>(a->cu_seqlens_k);
    params->is_seqlens_k_cumulative = true;
    params->softmax_lse_ptr = a->lse;
    params->unpadded_lse = problem->packed;
    params->b = (int)a->batch;
    params->h = problem->heads;
    params->h_k = (int)a->kv_heads;
    params->h_h_k_ratio = params->h / params->h_k;
    params->seqlen_q = problem->rows;
    params->seqlen_k = (int)a->k_len;
    params->seqlen_q_rounded = af_glue_round_up(problem->rows, 128);
    params->seqlen_k_rounded = af_glue_round_up(a->k_len, 128);
    params->d = (int)a->head_dim;
    params->d_rounded = af_glue_head_dim(problem);
    params->total_q =
        problem->packed ? (int)(problem->grouped ? a->batch * problem->rows : a->total_q) : 0;
    set_scale(a, params);
    set_dropout(problem, params);
    set_mask(problem, params);
}

/* Lengths, pages and new keys of a cache, or of packed keys. */
static void set_cache(const struct af_glue_problem *problem, af_forward_params *params)
{
    const struct anyflash_attend_args *a = &problem->a;
    if (problem->packed) {
        params->seqused_k = const_cast<int *>(a->seqused_k);
    } else if (a->seqused_k != NULL) { /* the kernels then take lengths from here */
        params->cu_seqlens_k = const_cast<int *>(a->seqused_k);
        params->is_seqlens_k_cumulative = false;
    }
    params->leftpad_k = const_cast<int *>(a->leftpad_k);
    params->cache_batch_idx = const_cast<int *>(a->cache_batch_idx);
    params->block_table = const_cast<int *>(a->block_table);
    params->block_table_batch_stride = problem->paged ? a->block_table_stride : 0;
    params->page_block_size = problem->paged ? (int)a->page_size : 1;
    params->seqlenq_ngroups_swapped = problem->packed && problem->grouped;
    if (a->k_new.data == NULL)
        return;
    params->seqlen_knew = (int)a->new_len;
    params->knew_ptr = a->k_new.data;
    params->vnew_ptr = a->v_new.data;
    params->knew_batch_stride = a->k_new.batch_stride;
    params->vnew_batch_stride = a->v_new.batch_stride;
    params->knew_row_stride = a->k_new.row_stride;
    params->vnew_row_stride = a->v_new.row_stride;
    params->knew_head_stride = a->k_new.head_stride;
    params->vnew_head_stride = a->v_new.head_stride;
    if (a->rotary_cos == NULL)
        return;
    params->rotary_dim = (int)a->rotary_dim;
    params->rotary_cos_ptr = const_cast<float *>(a->rotary_cos);
    params->rotary_sin_ptr = const_cast<float *>(a->rotary_sin);
    params->is_rotary_interleaved = a->rotary_interleaved != 0;
}

/*
 * The number of splits that flash-attn chooses: of those that use at least 85 % of the best
 * share of the multiprocessors' time, the smallest. A number is left out if its longest
 * part has as many blocks of keys as with one split less.
 */
static int choose_splits(int blocks_of_rows, int multiprocessors, int blocks_of_keys)
{
    if (blocks_of_rows >= 0.8f * multiprocessors)
        return 1;
    const int most = std::min({SPLITS_MAX, multiprocessors, blocks_of_keys});
    float shares[SPLITS_MAX], best = 0; /* float as in flash-attn, so that ties agree */
    for (int splits = 1; splits <= most; splits++) {
        const auto longest = [=](int n) { return (blocks_of_keys + n - 1) / n; };
        const float waves = (float)(blocks_of_rows * splits) / multiprocessors;
        const bool shorter = splits == 1 || longest(splits) != longest(splits - 1);
        shares[splits - 1] = shorter ? waves / std::ceil(waves) : 0.f;
        best = std::max(best, shares[splits - 1]);
    }
    for (int splits = 1; splits <= most; splits++)
        if (shares[splits - 1] > 0 && shares[splits - 1] >= 0.85 * best)
            return splits;
    return 1;
}

/* Packed sequences are split only if their heads are grouped; dropout prevents it. */
static void set_splits(const struct af_glue_problem *problem, af_forward_params *params,
                       struct af_glue_workspace *workspace)
{
    const int dim = params->d, block = dim <= 64 ? 256 : (dim <= 128 ? 128 : 64);
    const size_t lines = (size_t)params->b * params->h * params->seqlen_q;
    if (problem->packed && !problem->grouped)
        return;
    params->num_splits = problem->cuda.splits;
    if (problem->a.dropout > 0)
        return;
    if (params->num_splits < 1) /* two blocks of threads run on a multiprocessor */
        params->num_splits =
            choose_splits(params->b * params->h * ((params->seqlen_q + 63) / 64),
                          problem->multiprocessors * 2, (params->seqlen_k + block - 1) / block);
    if (params->num_splits <= 1)
        return;
    params->softmax_lseaccum_ptr =
        af_glue_workspace_take(workspace, params->num_splits * lines * sizeof(float));
    params->oaccum_ptr = af_glue_workspace_take(
        workspace, params->num_splits * lines * params->d_rounded * sizeof(float));
}

static void set_random(const struct af_glue_problem *problem, af_forward_params *params)
{
    at::PhiloxCudaState *state = &params->philox_args;
    if (problem->a.dropout == 0)
        return;
    state->seed_.value = problem->a.dropout_seed;
    state->offset_.value = problem->a.dropout_offset;
    if (problem->cuda.dropout_seed == NULL || problem->cuda.dropout_offset == NULL)
        return;
    state->seed_.pointer = problem->cuda.dropout_seed;
    state->offset_.pointer = problem->cuda.dropout_offset;
    state->offset_intragraph_ = (uint32_t)problem->a.dropout_offset;
    state->captured_ = true;
}

/* All parameters; with workspace->memory NULL only the workspace is counted. */
static void set_params(const struct af_glue_problem *problem, af_forward_params *params,
                       struct af_glue_workspace *workspace)
{
    af_glue_common_params(problem, params);
    set_cache(problem, params);
    set_random(problem, params);
    params->p_ptr = problem->cuda.dropout_scores;
    if (params->softmax_lse_ptr == NULL)
        params->softmax_lse_ptr = af_glue_workspace_take(
            workspace,
            (size_t)problem->a.heads * sizeof(float) *
                (problem->packed ? problem->a.total_q : problem->a.batch * problem->a.q_len));
    set_splits(problem, params, workspace);
}

/* Without keys o is 0 and lse +infinity, as flash-attn writes them. */
static void write_empty(const struct af_glue_problem *problem, const af_forward_params *params,
                        cudaStream_t stream)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t batch = problem->packed ? 1 : a->batch;
    const int64_t rows = af_glue_rows(a);
    af_glue_clear(&a->o, batch, rows, a->heads, a->head_dim, stream);
    af_glue_fill((float *)params->softmax_lse_ptr, batch * rows * a->heads, INFINITY, stream);
}

/* With run false only the workspace is counted, which goes to *needed_bytes. */
static enum anyflash_status forward(const struct af_glue_problem *problem, bool run,
                                    size_t *needed_bytes, struct anyflash_error *err)
{
    const bool split_always =
        problem->paged || problem->a.k_new.data != NULL || problem->a.cache_batch_idx != NULL;
    const cudaStream_t stream = (cudaStream_t)problem->cuda.stream;
    struct af_glue_workspace workspace = {(char *)problem->cuda.workspace, 0};
    af_forward_params params = {};
    set_params(problem, &params, &workspace);
    const bool split = split_always || params.num_splits > 1;
    *needed_bytes = workspace.used_bytes;
    if (!run)
        return ANYFLASH_OK;
    if (workspace.used_bytes > problem->cuda.workspace_bytes)
        return af_glue_fail(err, ANYFLASH_E_NO_MEMORY, "the workspace has %zu of %zu bytes",
                            problem->cuda.workspace_bytes, workspace.used_bytes);
    if (problem->a.k_len == 0)
        write_empty(problem, &params, stream);
    else if (problem->a.q_len > 0)
        af_glue_run_forward(&params, split, stream);
    return ANYFLASH_OK;
}

static enum anyflash_status call(const struct anyflash_attend_args *args,
                                 const struct anyflash_cuda_args *cuda, bool run,
                                 size_t *needed_bytes, struct anyflash_error *err)
{
    struct af_glue_problem problem;
    const auto body = [&] { return forward(&problem, run, needed_bytes, err); };
    enum anyflash_status status = af_glue_problem_init(&problem, args, cuda, false, err);
    return status != ANYFLASH_OK ? status : af_glue_on_device(&problem, body, err);
}

enum anyflash_status anyflash_cuda_attend(const struct anyflash_attend_args *args,
                                          const struct anyflash_cuda_args *cuda,
                                          struct anyflash_error *err)
{
    size_t needed_bytes;
    return call(args, cuda, true, &needed_bytes, err);
}

enum anyflash_status anyflash_cuda_workspace_bytes(const struct anyflash_attend_args *args,
                                                   const struct anyflash_cuda_args *cuda,
                                                   size_t *needed_bytes_out,
                                                   struct anyflash_error *err)
{
    return call(args, cuda, false, needed_bytes_out, err);
}
