/*
 * check_layout.c: what tensors and arrays a problem has, with their extents in
 * each of the layouts (plain, packed, paged). Called by problem.c before
 * anything is read; the checking is layout.c's.
 */
#include "engine/attn/check.h"
#include "engine/attn/layout.h"

static enum anyflash_status add_tensors(struct af_layout *layout,
                                        const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    bool append = a->new_len > 0;
    bool paged = a->block_table != NULL;
    int64_t q_batch = a->cu_seqlens_q != NULL ? 1 : a->batch;
    int64_t q_rows = a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
    int64_t k_batch = paged                        ? a->page_count
                      : a->cache_batch_idx != NULL ? a->cache_batch
                      : a->cu_seqlens_k != NULL    ? 1
                                                   : a->batch;
    int64_t k_rows = paged ? a->page_size : a->cu_seqlens_k != NULL ? a->total_k : a->k_len;
    const unsigned floats = AF_DTYPE_FLOATS, of_q = af_dtype_bit(a->q.dtype);
    const unsigned of_o = of_q | AF_DTYPE_BIT(ANYFLASH_F32);
    const unsigned boolean = AF_DTYPE_BIT(ANYFLASH_BOOL);
    const int64_t heads = a->heads, kv_heads = a->kv_heads, added = a->new_len;
    /* clang-format off */
    /* name, tensor, types, needed, output, extents, elements of a row */
    const struct af_row_of_tensor rows[] = {
        {"q", &a->q, floats, true, false, {q_batch, heads, q_rows}, a->head_dim},
        {"k", &a->k, of_q, true, append, {k_batch, kv_heads, k_rows}, a->head_dim},
        {"v", &a->v, of_q, true, append, {k_batch, kv_heads, k_rows}, a->value_dim},
        {"o", &a->o, of_o, true, true, {q_batch, heads, q_rows}, a->value_dim},
        {"bias", &a->bias, floats, false, false, {a->batch, heads, a->q_len}, a->k_len},
        {"mask", &a->mask, boolean, false, false, {a->batch, heads, a->q_len}, a->k_len},
        {"k_new", &a->k_new, of_q, append, false, {a->batch, kv_heads, added}, a->head_dim},
        {"v_new", &a->v_new, of_q, append, false, {a->batch, kv_heads, added}, a->value_dim},
    };
    /* clang-format on */
    return af_layout_tensors(layout, rows, AF_COUNT(rows), err);
}

static enum anyflash_status add_arrays(struct af_layout *layout,
                                       const struct anyflash_attend_args *a,
                                       struct anyflash_error *err)
{
    bool packed = a->cu_seqlens_q != NULL;
    int64_t table = a->block_table_stride, half = a->rotary_dim / 2;
    const int64_t lse_batch = packed ? 1 : a->batch, lse_run = packed ? a->total_q : a->q_len;
    /* clang-format off */
    /* name, data, output, extents, strides, elements of a row */
    const struct af_row_of_array rows[] = {
        {"lse", a->lse, true, {lse_batch, a->heads, 1},
         {a->lse_batch_stride, a->lse_head_stride, 0}, lse_run},
        {"alibi_slopes", a->alibi_slopes, false, {a->batch, 1, 1},
         {a->alibi_batch_stride, 0, 0}, a->heads},
        {"sinks", a->sinks, false, {1, 1, 1}, {0}, a->heads},
        {"causal_offsets", a->causal_offsets, false, {1, 1, 1}, {0}, a->batch},
        {"cu_seqlens_q", a->cu_seqlens_q, false, {1, 1, 1}, {0}, a->batch + 1},
        {"cu_seqlens_k", a->cu_seqlens_k, false, {1, 1, 1}, {0}, a->batch + 1},
        {"seqused_q", a->seqused_q, false, {1, 1, 1}, {0}, a->batch},
        {"seqused_k", a->seqused_k, false, {1, 1, 1}, {0}, a->batch},
        {"leftpad_k", a->leftpad_k, false, {1, 1, 1}, {0}, a->batch},
        {"cache_batch_idx", a->cache_batch_idx, false, {1, 1, 1}, {0}, a->batch},
        {"block_table", a->block_table, false, {a->batch, 1, 1}, {table, 0, 0}, table},
        {"rotary_cos", a->rotary_cos, false, {1, 1, a->rotary_rows}, {0, 0, half}, half},
        {"rotary_sin", a->rotary_sin, false, {1, 1, a->rotary_rows}, {0, 0, half}, half},
    };
    /* clang-format on */
    return af_layout_arrays(layout, rows, AF_COUNT(rows), err);
}

enum anyflash_status af_layout_forward(struct af_layout *layout,
                                       const struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    layout->count = 0;
    enum anyflash_status status = add_tensors(layout, args, err);
    return status == ANYFLASH_OK ? add_arrays(layout, args, err) : status;
}

enum anyflash_status af_problem_check_layouts(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err)
{
    struct af_layout layout;
    enum anyflash_status status = af_layout_forward(&layout, args, err);
    return status == ANYFLASH_OK ? af_layout_check_apart(&layout, err) : status;
}
