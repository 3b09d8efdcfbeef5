/*
 * call_params.c: the parameters that forward and backward have in common, as set_params_fprop()
 * of flash-attn fills them, the workspace, and the launches of our own small kernels.
 */
#include <math.h>
#include <string.h>

#include "engine/gpu/launch.h"

#define SMALL_THREADS 256
#define SMALL_BLOCKS_MAX 65536 /* each thread then takes several elements */

static void set_tensors(const struct af_launch_call *call, struct af_launch_forward *params)
{
    const struct anyflash_attend_args *a = &call->a;
    const int64_t group = a->heads / a->kv_heads;
    params->q_ptr = a->q.data;
    params->k_ptr = a->k.data;
    params->v_ptr = a->v.data;
    params->o_ptr = a->o.data;
    /* grouped heads: what was a head is a row, the one row of a sequence disappears */
    params->q_row_stride = call->grouped ? a->q.head_stride : a->q.row_stride;
    params->q_head_stride = call->grouped ? group * a->q.head_stride : a->q.head_stride;
    params->o_row_stride = call->grouped ? a->o.head_stride : a->o.row_stride;
    params->o_head_stride = call->grouped ? group * a->o.head_stride : a->o.head_stride;
    params->k_row_stride = a->k.row_stride;
    params->k_head_stride = a->k.head_stride;
    params->v_row_stride = a->v.row_stride;
    params->v_head_stride = a->v.head_stride;
    if (!call->packed) {
        params->q_batch_stride = a->q.batch_stride;
        params->o_batch_stride = a->o.batch_stride;
    } else if (call->grouped) {
        params->q_batch_stride = a->q.row_stride;
        params->o_batch_stride = a->o.row_stride;
    }
    if (!call->packed || call->paged) {
        params->k_batch_stride = a->k.batch_stride;
        params->v_batch_stride = a->v.batch_stride;
    }
}

/* With a softcap the kernels compute scale_softmax * tanh(q.k * softcap). */
static void set_scale(const struct anyflash_attend_args *a, struct af_launch_forward *params)
{
    const float scale =
        a->scale != ANYFLASH_SCALE_DEFAULT ? a->scale : 1.0f / sqrtf((float)a->head_dim);
    params->softcap = a->softcap > 0 ? scale / a->softcap : 0.0f;
    params->scale_softmax = a->softcap > 0 ? a->softcap : scale;
    params->scale_softmax_log2 = (float)((double)params->scale_softmax * M_LOG2E);
}

static void set_dropout(const struct af_launch_call *call, struct af_launch_forward *params)
{
    params->p_dropout = 1.0f - call->a.dropout;
    params->p_dropout_in_uint8_t = (uint8_t)floor((double)params->p_dropout * 255.0);
    params->rp_dropout = 1.0f / params->p_dropout;
    params->scale_softmax_rp_dropout = params->rp_dropout * params->scale_softmax;
    params->rng_state = call->cuda.rng_state;
}

/* A causal mask without a window has kernels of its own. */
static void set_mask(const struct af_launch_call *call, struct af_launch_forward *params)
{
    const int32_t left = call->window_left, right = call->window_right;
    const int32_t all = (int32_t)call->a.k_len;
    params->is_causal = left < 0 && right == 0;
    params->window_size_left = left < 0 && right >= 0 ? all : left;
    params->window_size_right = left >= 0 && right < 0 ? all : right;
    params->alibi_slopes_ptr = call->a.alibi_slopes;
    params->alibi_slopes_batch_stride = call->a.alibi_batch_stride;
}

void af_launch_common(const struct af_launch_call *call, struct af_launch_forward *params)
{
    const struct anyflash_attend_args *a = &call->a;
    params->is_bf16 = a->q.dtype == ANYFLASH_BF16;
    set_tensors(call, params);
    params->cu_seqlens_q = call->grouped ? NULL : a->cu_seqlens_q;
    params->cu_seqlens_k = a->cu_seqlens_k;
    params->is_seqlens_k_cumulative = true;
    params->softmax_lse_ptr = a->lse;
    params->unpadded_lse = call->packed;
    params->b = (int32_t)a->batch;
    params->h = call->heads;
    params->h_k = (int32_t)a->kv_heads;
    params->h_h_k_ratio = params->h / params->h_k;
    params->seqlen_q = call->rows;
    params->seqlen_k = (int32_t)a->k_len;
    params->seqlen_q_rounded = (int32_t)af_launch_round_up(call->rows, 128);
    params->seqlen_k_rounded = (int32_t)af_launch_round_up(a->k_len, 128);
    params->d = (int32_t)a->head_dim;
    params->d_rounded = (int32_t)af_launch_round_up(a->head_dim, a->head_dim <= 128 ? 32 : 64);
    params->total_q =
        call->packed ? (int32_t)(call->grouped ? a->batch * call->rows : a->total_q) : 0;
    set_scale(a, params);
    set_dropout(call, params);
    set_mask(call, params);
}

void *af_launch_take(struct af_launch_workspace *workspace, int64_t bytes)
{
    void *block = workspace->memory == NULL ? NULL : workspace->memory + workspace->used_bytes;
    workspace->used_bytes += (size_t)af_launch_round_up(bytes, 256);
    return block;
}

struct af_launch *af_launch_add(struct af_launch_list *list, enum af_launch_function function,
                                int64_t blocks, int64_t y, int64_t z, uint32_t threads)
{
    struct af_launch *launch = &list->items[list->count++];
    memset(launch, 0, sizeof *launch);
    launch->kernel.function = (uint8_t)function;
    launch->kernel.is_bf16 = list->params.forward.is_bf16;
    launch->kernel.dim = (uint8_t)(list->params.forward.d_rounded / 8);
    launch->grid[0] = (uint32_t)blocks;
    launch->grid[1] = (uint32_t)y;
    launch->grid[2] = (uint32_t)z;
    launch->threads = threads;
    return launch;
}

/* A small kernel over `count` elements. */
static struct af_launch *add_small(struct af_launch_list *list,
                                   enum af_launch_function function, int64_t count,
                                   const int64_t *words, int32_t word_count)
{
    const int64_t blocks = (count + SMALL_THREADS - 1) / SMALL_THREADS;
    struct af_launch *launch =
        af_launch_add(list, function, blocks < SMALL_BLOCKS_MAX ? blocks : SMALL_BLOCKS_MAX, 1,
                      1, SMALL_THREADS);
    launch->kernel.dim = 0;
    memcpy(launch->words, words, (size_t)word_count * sizeof *words);
    launch->word_count = word_count;
    if (count == 0)
        list->count--;
    return launch;
}

void af_launch_add_fill(struct af_launch_list *list, void *data, int64_t count, float value)
{
    int64_t words[] = {(int64_t)(intptr_t)data, count, 0};
    memcpy(&words[2], &value, sizeof value);
    add_small(list, AF_LAUNCH_FILL, count, words, 3);
}

void af_launch_add_clear(struct af_launch_list *list, const struct anyflash_tensor *tensor,
                         int64_t batch, int64_t rows, int64_t heads, int64_t dim)
{
    const int64_t count = batch * rows * heads * dim;
    const int64_t words[] = {(int64_t)(intptr_t)tensor->data,
                             count,
                             tensor->batch_stride,
                             tensor->row_stride,
                             tensor->head_stride,
                             rows,
                             heads,
                             dim};
    add_small(list, AF_LAUNCH_CLEAR, count, words, 8);
}

void af_launch_add_sum(struct af_launch_list *list, const struct anyflash_tensor *tensor,
                       const void *expanded, int64_t batch, int64_t rows, int64_t heads,
                       int64_t group, int64_t dim)
{
    const int64_t count = batch * rows * heads * dim;
    const int64_t words[] = {(int64_t)(intptr_t)tensor->data,
                             (int64_t)(intptr_t)expanded,
                             count,
                             tensor->batch_stride,
                             tensor->row_stride,
                             tensor->head_stride,
                             rows,
                             heads,
                             dim,
                             group};
    add_small(list, AF_LAUNCH_SUM, count, words, 10);
}
