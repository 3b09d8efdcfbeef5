/*
 * backward_launches.c: the launches of backward: parameters and workspace as mha_bwd() and
 * mha_varlen_bwd() of flash-attn make them, kernels as its flash_bwd_launch_template.h chooses
 * them, and the sum over grouped heads.
 */
#include "engine/base/base.h"
#include "engine/gpu/launch.h"

/* Rows by which packed sequences lie apart in the workspace, so that kernels need no checks. */
#define ROWS_APART 128

/* Memory that the call needs besides the parameters. */
struct temporary {
    void *dk_expanded, *dv_expanded; /* of all query heads, or NULL: not grouped */
    char *clear;                     /* what must be 0 before, or NULL */
    size_t clear_bytes;
};

/* Rows of softmax_d and dq_accum in all. */
static int64_t rows_of(const struct af_launch_call *call)
{
    return call->packed ? call->a.total_q + ROWS_APART * call->a.batch
                        : call->a.batch * af_launch_round_up(call->a.q_len, 128);
}

static void set_workspace(const struct af_launch_call *call,
                          const struct af_launch_device *device,
                          struct af_launch_backward *params, struct temporary *temporary,
                          struct af_launch_workspace *workspace)
{
    const struct anyflash_attend_args *a = &call->a;
    const int64_t rows = rows_of(call), heads = a->batch * a->heads;
    const int64_t dq_floats = rows * a->heads * params->forward.d_rounded;
    const int64_t splits =
        call->cuda.deterministic ? (device->multiprocessors + heads - 1) / heads : 1;
    const int64_t expanded =
        (call->packed ? a->total_k : a->batch * a->k_len) * a->heads * a->head_dim * 2;
    params->dsoftmax_sum = call->cuda.softmax_d;
    if (params->dsoftmax_sum == NULL)
        params->dsoftmax_sum =
            af_launch_take(workspace, rows * a->heads * (int64_t)sizeof(float));
    const bool grouped = a->heads != a->kv_heads;
    size_t from = workspace->used_bytes;
    params->dq_accum_ptr =
        af_launch_take(workspace, dq_floats * splits * (int64_t)sizeof(float));
    size_t to = call->cuda.deterministic ? workspace->used_bytes : from;
    params->dq_accum_split_stride = call->cuda.deterministic ? dq_floats : 0;
    params->deterministic = call->cuda.deterministic != 0;
    if (grouped && call->cuda.zero_unused && to == from)
        from = workspace->used_bytes;
    if (grouped) {
        temporary->dk_expanded = af_launch_take(workspace, expanded);
        temporary->dv_expanded = af_launch_take(workspace, expanded);
    }
    if (grouped && call->cuda.zero_unused)
        to = workspace->used_bytes;
    temporary->clear_bytes = to > from ? to - from : 0;
    temporary->clear = workspace->memory != NULL && to > from ? workspace->memory + from : NULL;
}

static void set_tensors(const struct af_launch_call *call, const struct temporary *temporary,
                        struct af_launch_backward *params)
{
    const struct anyflash_attend_args *a = &call->a;
    const struct anyflash_attend_backward_args *g = &call->gradients;
    const bool grouped = a->heads != a->kv_heads;
    const struct anyflash_tensor expanded =
        anyflash_bshd(NULL, a->q.dtype, a->heads, a->k_len, a->head_dim);
    const struct anyflash_tensor *dk = grouped ? &expanded : &g->dk;
    const struct anyflash_tensor *dv = grouped ? &expanded : &g->dv;
    params->do_ptr = g->dout.data;
    params->dq_ptr = g->dq.data;
    params->dk_ptr = grouped ? temporary->dk_expanded : g->dk.data;
    params->dv_ptr = grouped ? temporary->dv_expanded : g->dv.data;
    params->do_row_stride = g->dout.row_stride;
    params->do_head_stride = g->dout.head_stride;
    params->dq_row_stride = g->dq.row_stride;
    params->dq_head_stride = g->dq.head_stride;
    params->dk_row_stride = dk->row_stride;
    params->dk_head_stride = dk->head_stride;
    params->dv_row_stride = dv->row_stride;
    params->dv_head_stride = dv->head_stride;
    if (call->packed)
        return;
    params->do_batch_stride = g->dout.batch_stride;
    params->dq_batch_stride = g->dq.batch_stride;
    params->dk_batch_stride = dk->batch_stride;
    params->dv_batch_stride = dv->batch_stride;
}

/* ---- kernels ---- */

/* A tile and how its work is laid out; rows and keys divided by 8. */
struct layout {
    uint8_t rows, keys, atoms[3];
    bool v_in_regs, no_double;
};

/* Which layout the shared memory of a block, in bytes, allows; rows 0: none. */
static struct layout choose_layout(int32_t dim, int32_t shared, bool dropout)
{
    const int32_t kib = 1024;
    switch (dim) {
    case 32:
        return shared >= 2 * ((3 * 128 + 2 * 128) * 32 + 2 * 128 * 128) && dropout
                   ? (struct layout){16, 16, {4, 4, 4}, false, false}
                   : (struct layout){16, 16, {4, 4, 4}, true, false};
    case 64:
        return shared >= 144 * kib ? (struct layout){16, 16, {4, 4, 4}, false, false}
                                   : (struct layout){8, 16, {2, 4, 4}, true, false};
    case 96:
        return (struct layout){8, 16, {2, 4, 4}, !(shared >= 116 * kib && dropout), false};
    case 128:
        return shared >= 144 * kib ? (struct layout){8, 16, {2, 4, 2}, false, false}
                                   : (struct layout){8, 8, {4, 2, 2}, true, false};
    case 192:
        return shared >= 136 * kib ? (struct layout){8, 8, {4, 2, 2}, false, false}
                                   : (struct layout){8, 8, {4, 2, 2}, true, true};
    default:
        if (shared >= 144 * kib)
            return (struct layout){8, 8, {4, 2, 2}, false, shared < 176 * kib};
        return dropout ? (struct layout){0, 0, {0, 0, 0}, false, false}
                       : (struct layout){8, 4, {4, 1, 2}, true, true};
    }
}

static struct af_launch *add_kernel(struct af_launch_list *list,
                                    enum af_launch_function function, int64_t blocks,
                                    struct layout layout)
{
    const struct af_launch_forward *params = &list->params.forward;
    struct af_launch *launch =
        af_launch_add(list, function, blocks, params->b, params->h, 8 * 32);
    launch->kernel.rows = layout.rows;
    launch->kernel.keys = layout.keys;
    launch->kernel.warps = 8;
    for (int i = 0; i < 3; i++)
        launch->kernel.atoms[i] = layout.atoms[i];
    launch->kernel.v_in_regs = layout.v_in_regs;
    launch->kernel.no_double = layout.no_double;
    return launch;
}

/* Bytes of q and dout, k and v, and of S and dS. */
static uint32_t shared_bytes(int32_t dim, struct layout layout)
{
    const uint32_t rows = layout.rows * 8u, keys = layout.keys * 8u;
    const uint32_t of_rows = rows * (uint32_t)dim * (layout.no_double ? 2 : 3) * 2;
    const uint32_t of_keys = keys * (uint32_t)dim * 2 * 2, of_scores = rows * keys * 2 * 2;
    const uint32_t half = of_keys / 2 + of_scores;
    if (!layout.v_in_regs)
        return of_rows + of_keys + of_scores;
    return of_rows + (half > of_keys ? half : of_keys);
}

static void add_all(struct af_launch_list *list, const struct af_launch_device *device,
                    struct layout layout)
{
    const struct af_launch_backward *params = &list->params;
    const struct af_launch_forward *f = &params->forward;
    const int32_t rows = layout.rows * 8, keys = layout.keys * 8;
    const int64_t row_blocks = (f->seqlen_q + rows - 1) / rows;
    int64_t key_blocks = (f->seqlen_k + keys - 1) / keys;
    const bool even_k = f->d == f->d_rounded, alibi = f->alibi_slopes_ptr != NULL;
    const bool local = (f->window_size_left >= 0 || f->window_size_right >= 0) && !f->is_causal;
    const bool even_mn = f->cu_seqlens_q == NULL && f->cu_seqlens_k == NULL &&
                         f->seqlen_q % rows == 0 && f->seqlen_k % keys == 0;
    const bool softcap = f->softcap > 0;
    const bool more[] = {f->p_dropout < 1.0f && !softcap,
                         f->is_causal,
                         local,
                         alibi,
                         even_mn && even_k && !local && !alibi && f->d_rounded <= 128,
                         even_k && !alibi,
                         softcap};
    if (params->deterministic) /* each block adds to a dq of its own */
        key_blocks =
            (device->multiprocessors + (int64_t)f->b * f->h - 1) / ((int64_t)f->b * f->h);
    struct af_launch *launch = add_kernel(list, AF_LAUNCH_DOT, row_blocks, layout);
    launch->kernel.more[0] = !params->deterministic; /* it clears dq_accum */
    launch->kernel.more_count = 1;
    launch = add_kernel(list, AF_LAUNCH_BACKWARD, key_blocks, layout);
    for (uint8_t i = 0; i < AF_COUNT(more); i++)
        launch->kernel.more[i] = more[i];
    launch->kernel.more_count = AF_COUNT(more);
    launch->shared_bytes = shared_bytes(f->d_rounded, layout);
    launch = add_kernel(list, AF_LAUNCH_CONVERT, row_blocks, layout);
    launch->shared_bytes = (uint32_t)(rows * f->d_rounded * 2);
    launch->splits = params->deterministic ? (int32_t)key_blocks : 1;
}

/* Without queries or keys all gradients and softmax_d are 0. */
static void add_empty(const struct af_launch_call *call, struct af_launch_list *list)
{
    const struct anyflash_attend_args *a = &call->a;
    const struct anyflash_attend_backward_args *g = &call->gradients;
    const int64_t batch = call->packed ? 1 : a->batch;
    const int64_t rows = af_launch_q_rows(a), keys = af_launch_k_rows(a);
    af_launch_add_clear(list, &g->dq, batch, rows, a->heads, a->head_dim);
    af_launch_add_clear(list, &g->dk, batch, keys, a->kv_heads, a->head_dim);
    af_launch_add_clear(list, &g->dv, batch, keys, a->kv_heads, a->head_dim);
    af_launch_add_fill(list, list->params.dsoftmax_sum, rows_of(call) * a->heads, 0);
}

enum anyflash_status af_launch_make_backward(const struct af_launch_call *call,
                                             const struct af_launch_device *device,
                                             struct af_launch_workspace *workspace,
                                             struct af_launch_list *list,
                                             struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &call->a;
    struct af_launch_backward *params = &list->params;
    struct temporary temporary = {NULL, NULL, NULL, 0};
    const int64_t batch = call->packed ? 1 : a->batch, group = a->heads / a->kv_heads;
    af_launch_common(call, &params->forward);
    const struct layout layout =
        choose_layout(params->forward.d_rounded, device->shared_per_block, a->dropout > 0);
    if (layout.rows == 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "FlashAttention backward for head dim > 192 with dropout requires "
                       "A100/A800 or H100/H800");
    set_workspace(call, device, params, &temporary, workspace);
    set_tensors(call, &temporary, params);
    if (a->q_len == 0 || a->k_len == 0) {
        add_empty(call, list);
        return ANYFLASH_OK;
    }
    list->clear = temporary.clear;
    list->clear_bytes = temporary.clear_bytes;
    add_all(list, device, layout);
    if (group == 1)
        return ANYFLASH_OK;
    af_launch_add_sum(list, &call->gradients.dk, temporary.dk_expanded, batch,
                      af_launch_k_rows(a), a->kv_heads, group, a->head_dim);
    af_launch_add_sum(list, &call->gradients.dv, temporary.dv_expanded, batch,
                      af_launch_k_rows(a), a->kv_heads, group, a->head_dim);
    return ANYFLASH_OK;
}
