/*
 * forward_launches.c: the launches of forward: parameters and workspace as mha_fwd(),
 * mha_varlen_fwd() and mha_fwd_kvcache() of flash-attn make them, kernels as its
 * flash_fwd_launch_template.h chooses them.
 */
#include <math.h>

#include "engine/base/base.h"
#include "engine/gpu/launch.h"

#define SPLITS_MAX 128

/* Lengths, pages and new keys of a cache, or of packed keys. */
static void set_cache(const struct af_launch_call *call, struct af_launch_forward *params)
{
    const struct anyflash_attend_args *a = &call->a;
    if (call->packed) {
        params->seqused_k = a->seqused_k;
    } else if (a->seqused_k != NULL) { /* the kernels then take lengths from here */
        params->cu_seqlens_k = a->seqused_k;
        params->is_seqlens_k_cumulative = false;
    }
    params->leftpad_k = a->leftpad_k;
    params->cache_batch_idx = a->cache_batch_idx;
    params->block_table = a->block_table;
    params->block_table_batch_stride = call->paged ? a->block_table_stride : 0;
    params->page_block_size = call->paged ? (int32_t)a->page_size : 1;
    params->seqlenq_ngroups_swapped = call->packed && call->grouped;
    if (a->k_new.data == NULL)
        return;
    params->seqlen_knew = (int32_t)a->new_len;
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
    params->rotary_dim = (int32_t)a->rotary_dim;
    params->rotary_cos_ptr = a->rotary_cos;
    params->rotary_sin_ptr = a->rotary_sin;
    params->is_rotary_interleaved = a->rotary_interleaved != 0;
}

static int32_t divide_up(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/*
 * The number of splits that flash-attn chooses: of those that use at least 85 % of the best
 * share of the multiprocessors' time, the smallest. A number is left out if its longest
 * part has as many blocks of keys as with one split less.
 */
static int32_t choose_splits(int32_t blocks_of_rows, int32_t multiprocessors,
                             int32_t blocks_of_keys)
{
    float shares[SPLITS_MAX], best = 0; /* float as in flash-attn, so that ties agree */
    const int32_t most = smaller(SPLITS_MAX, smaller(multiprocessors, blocks_of_keys));
    if ((float)blocks_of_rows >= 0.8f * (float)multiprocessors)
        return 1;
    for (int32_t splits = 1; splits <= most; splits++) {
        const float waves = (float)(blocks_of_rows * splits) / (float)multiprocessors;
        const bool shorter = splits == 1 || divide_up(blocks_of_keys, splits) !=
                                                divide_up(blocks_of_keys, splits - 1);
        shares[splits - 1] = shorter ? waves / ceilf(waves) : 0.0f;
        best = shares[splits - 1] > best ? shares[splits - 1] : best;
    }
    for (int32_t splits = 1; splits <= most; splits++)
        if (shares[splits - 1] > 0 && (double)shares[splits - 1] >= 0.85 * (double)best)
            return splits;
    return 1;
}

/* Packed sequences are split only if their heads are grouped; dropout prevents it. */
static void set_splits(const struct af_launch_call *call, const struct af_launch_device *device,
                       struct af_launch_forward *params, struct af_launch_workspace *workspace)
{
    const int32_t dim = params->d, block = dim <= 64 ? 256 : dim <= 128 ? 128 : 64;
    const int64_t lines = (int64_t)params->b * params->h * params->seqlen_q;
    if (call->packed && !call->grouped)
        return;
    params->num_splits = call->cuda.splits;
    if (call->a.dropout > 0)
        return;
    if (params->num_splits < 1) /* two blocks of threads run on a multiprocessor */
        params->num_splits =
            choose_splits(params->b * params->h * divide_up(params->seqlen_q, 64),
                          device->multiprocessors * 2, divide_up(params->seqlen_k, block));
    if (params->num_splits <= 1)
        return;
    params->softmax_lseaccum_ptr =
        af_launch_take(workspace, params->num_splits * lines * (int64_t)sizeof(float));
    params->oaccum_ptr = af_launch_take(
        workspace, params->num_splits * lines * params->d_rounded * (int64_t)sizeof(float));
}

static void set_random(const struct af_launch_call *call, struct af_launch_forward *params)
{
    struct af_launch_random *random = &params->philox_args;
    if (call->a.dropout == 0)
        return;
    random->seed.value = call->a.dropout_seed;
    random->offset.value = call->a.dropout_offset;
    if (call->cuda.dropout_seed == NULL || call->cuda.dropout_offset == NULL)
        return;
    random->seed.pointer = call->cuda.dropout_seed;
    random->offset.pointer = call->cuda.dropout_offset;
    random->more = (uint32_t)call->a.dropout_offset;
    random->captured = true;
}

static void set_params(const struct af_launch_call *call, const struct af_launch_device *device,
                       struct af_launch_forward *params, struct af_launch_workspace *workspace)
{
    af_launch_common(call, params);
    set_cache(call, params);
    set_random(call, params);
    params->p_ptr = call->cuda.dropout_scores;
    if (params->softmax_lse_ptr == NULL)
        params->softmax_lse_ptr = af_launch_take(
            workspace, call->a.heads * (int64_t)sizeof(float) *
                           (call->packed ? call->a.total_q : call->a.batch * call->a.q_len));
    set_splits(call, device, params, workspace);
}

/* ---- kernels ---- */

/* Rows and keys of a tile, and warps. */
struct tile {
    uint8_t rows, keys, warps; /* rows and keys divided by 8 */
};

/* With 8.6 and 8.9 (a third of the shared memory) other tiles are faster. */
static struct tile choose_tile(const struct af_launch_forward *params,
                               const struct af_launch_device *device)
{
    const bool dropout = params->p_dropout < 1.0f, causal = params->is_causal;
    const bool small = device->major == 8 && device->minor > 0;
    const int32_t needed = 2 * 256 * (128 + 2 * 64), enough_for_two = 4 * 256 * (64 + 2 * 64);
    switch (params->d_rounded) {
    case 32:
        return (struct tile){16, 16, 4};
    case 64:
        return dropout ? (struct tile){16, 8, 4} : (struct tile){16, 16, 4};
    case 96:
        return small && causal ? (struct tile){8, 8, 4} : (struct tile){16, 8, 4};
    case 128:
        if (dropout)
            return (struct tile){16, 4, 4};
        return !small   ? (struct tile){16, 8, 4}
               : causal ? (struct tile){8, 8, 4}
                        : (struct tile){16, 4, 4};
    case 192:
        return dropout ? (struct tile){8, 8, 4} : (struct tile){16, 8, 8};
    default:
        return device->shared_per_block >= needed &&
                       device->shared_per_multiprocessor < enough_for_two
                   ? (struct tile){16, 8, 8}
                   : (struct tile){8, 8, 4};
    }
}

/* What the template arguments of both kinds of kernels depend on. */
struct traits {
    bool is_even_mn, is_even_k, is_local, has_alibi, is_softcap;
};

static struct traits traits_of(const struct af_launch_forward *params, struct tile tile)
{
    return (struct traits){
        .is_even_mn = params->cu_seqlens_q == NULL && params->cu_seqlens_k == NULL &&
                      params->seqlen_k % (tile.keys * 8) == 0 &&
                      params->seqlen_q % (tile.rows * 8) == 0,
        .is_even_k = params->d == params->d_rounded,
        .is_local = (params->window_size_left >= 0 || params->window_size_right >= 0) &&
                    !params->is_causal,
        .has_alibi = params->alibi_slopes_ptr != NULL,
        .is_softcap = params->softcap > 0,
    };
}

static void set_kernel(struct af_launch *launch, struct tile tile, const bool *more,
                       uint8_t more_count)
{
    launch->kernel.rows = tile.rows;
    launch->kernel.keys = tile.keys;
    launch->kernel.warps = tile.warps;
    for (uint8_t i = 0; i < more_count; i++)
        launch->kernel.more[i] = more[i];
    launch->kernel.more_count = more_count;
    /* q, and k and v, of 2 bytes */
    launch->shared_bytes =
        launch->kernel.dim * 8u * (tile.rows * 8u + 2u * tile.keys * 8u) * 2u;
}

static void add_whole(struct af_launch_list *list, const struct af_launch_device *device)
{
    const struct af_launch_forward *params = &list->params.forward;
    const struct tile tile = choose_tile(params, device);
    const struct traits t = traits_of(params, tile);
    const bool dropout = params->p_dropout < 1.0f && !t.is_softcap;
    const bool scores = params->p_ptr != NULL;
    const bool more[] = {dropout,
                         params->is_causal,
                         t.is_local,
                         t.has_alibi,
                         t.is_even_mn && t.is_even_k && !t.is_local && !t.has_alibi &&
                             !scores && params->d_rounded <= 128,
                         t.is_even_k && !scores && !t.has_alibi,
                         t.is_softcap,
                         scores && dropout};
    struct af_launch *launch =
        af_launch_add(list, AF_LAUNCH_FORWARD, divide_up(params->seqlen_q, tile.rows * 8),
                      params->b, params->h, tile.warps * 32u);
    set_kernel(launch, tile, more, AF_COUNT(more));
}

/* Merges the parts. With more elements in a head a block of threads has fewer rows. */
static void add_merge(struct af_launch_list *list, struct tile tile, bool is_even_k)
{
    const struct af_launch_forward *params = &list->params.forward;
    const int32_t rows = params->d_rounded % 128 == 0  ? 4
                         : params->d_rounded % 64 == 0 ? 8
                                                       : 16;
    uint8_t log = 1;
    while (1 << log < params->num_splits)
        log++;
    struct af_launch *launch = af_launch_add(
        list, AF_LAUNCH_COMBINE, divide_up(params->b * params->h * params->seqlen_q, rows), 1,
        1, tile.warps * 32u);
    set_kernel(launch, tile, NULL, 0);
    launch->shared_bytes = 0;
    launch->kernel.more[0] = (uint8_t)rows;
    launch->kernel.more[1] = log;
    launch->kernel.more[2] = is_even_k;
    launch->kernel.more_count = 3;
}

static void add_split(struct af_launch_list *list)
{
    const struct af_launch_forward *params = &list->params.forward;
    const int32_t dim = params->d_rounded;
    const struct tile tile = {8, dim <= 64 ? 32 : dim <= 128 ? 16 : 8, 4};
    const struct traits t = traits_of(params, tile);
    const bool splits = params->num_splits > 1, appends = params->knew_ptr != NULL;
    const bool more[] = {params->is_causal,
                         t.is_local,
                         t.has_alibi,
                         t.is_even_mn && !appends && t.is_even_k && !t.is_local &&
                             !t.has_alibi && dim <= 128,
                         t.is_even_k && !t.has_alibi,
                         t.is_softcap,
                         splits,
                         appends};
    struct af_launch *launch =
        af_launch_add(list, AF_LAUNCH_SPLIT, divide_up(params->seqlen_q, tile.rows * 8),
                      splits ? params->num_splits : params->b,
                      splits ? params->b * params->h : params->h, tile.warps * 32u);
    set_kernel(launch, tile, more, AF_COUNT(more));
    if (splits)
        add_merge(list, tile, t.is_even_k);
}

/* Without keys o is 0 and lse +infinity, as flash-attn writes them. */
static void add_empty(const struct af_launch_call *call, struct af_launch_list *list)
{
    const struct anyflash_attend_args *a = &call->a;
    const int64_t batch = call->packed ? 1 : a->batch;
    const int64_t rows = af_launch_q_rows(a);
    af_launch_add_clear(list, &a->o, batch, rows, a->heads, a->head_dim);
    af_launch_add_fill(list, list->params.forward.softmax_lse_ptr, batch * rows * a->heads,
                       INFINITY);
}

enum anyflash_status af_launch_make_forward(const struct af_launch_call *call,
                                            const struct af_launch_device *device,
                                            struct af_launch_workspace *workspace,
                                            struct af_launch_list *list,
                                            struct anyflash_error *err)
{
    const bool split_always =
        call->paged || call->a.k_new.data != NULL || call->a.cache_batch_idx != NULL;
    struct af_launch_forward *params = &list->params.forward;
    (void)err;
    set_params(call, device, params, workspace);
    if (call->a.k_len == 0)
        add_empty(call, list);
    else if (call->a.q_len > 0 && (split_always || params->num_splits > 1))
        add_split(list);
    else if (call->a.q_len > 0)
        add_whole(list, device);
    return ANYFLASH_OK;
}
