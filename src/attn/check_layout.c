/*
 * check_layout.c: where the tensors and arrays of a problem lie: element
 * types, alignment, strides, and that outputs share no byte with themselves or
 * with anything else. Called by problem.c before anything is read.
 */
#include "attn/box.h"
#include "attn/check.h"

#define BIT(dtype) (1u << (dtype))
#define FLOATS (BIT(ANYFLASH_F32) | BIT(ANYFLASH_F16) | BIT(ANYFLASH_BF16))
#define BOXES_MAX 24

/* Boxes of all that a problem points to; outputs are written. */
struct layout {
    struct af_box box[BOXES_MAX];
    bool output[BOXES_MAX];
    size_t count;
};

struct tensor_row {
    const char *name;
    const struct anyflash_tensor *tensor;
    unsigned dtypes; /* bits of what it may be */
    bool needed;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t run;
};

struct array_row {
    const char *name;
    const void *data;
    bool output;
    int64_t extent[AF_BOX_DIMS];
    int64_t stride[AF_BOX_DIMS];
    int64_t run;
};

static enum anyflash_status check_dtype(const struct tensor_row *row,
                                        struct anyflash_error *err)
{
    static const char *const names[] = {"", "f32 (1)", "f16 (2)", "bf16 (3)", "bool (4)"};
    int32_t dtype = row->tensor->dtype;
    bool known = dtype >= ANYFLASH_F32 && dtype <= ANYFLASH_BOOL;
    if (row->tensor->reserved != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s.reserved is %d; it must be 0", row->name,
                       (int)row->tensor->reserved);
    if (known && (row->dtypes & BIT(dtype)) != 0)
        return ANYFLASH_OK;
    const char *sep = "";
    char allowed[64] = "";
    size_t len = 0;
    for (int d = ANYFLASH_F32; d <= ANYFLASH_BOOL; d++) {
        if ((row->dtypes & BIT(d)) == 0)
            continue;
        len += (size_t)snprintf(allowed + len, sizeof allowed - len, "%s%s", sep, names[d]);
        sep = " or ";
    }
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s.dtype is %d; it must be %s", row->name,
                   (int)dtype, allowed);
}

/* Checks alignment and strides, and adds the box. Stride names follow `strides`. */
static enum anyflash_status add_box(struct layout *layout, const char *name, const void *data,
                                    size_t element_bytes, bool output,
                                    const int64_t extent[AF_BOX_DIMS],
                                    const int64_t stride[AF_BOX_DIMS], int64_t run,
                                    struct anyflash_error *err)
{
    static const char *const dims[] = {"batch_stride", "head_stride", "row_stride"};
    struct af_box *box = &layout->box[layout->count];
    if ((uintptr_t)data % element_bytes != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s is at address 0x%llx; it must be aligned to %zu bytes", name,
                       (unsigned long long)(uintptr_t)data, element_bytes);
    int dim = af_box_init(box, name, data, (int64_t)element_bytes, extent, stride, run);
    if (dim != AF_BOX_DIMS)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s.%s is %lld; with %lld of them %s leaves the address space", name,
                       dims[dim], (long long)stride[dim], (long long)extent[dim], name);
    if (output && !af_box_nests(box))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s overlaps itself; its strides are %lld, %lld and %lld", name,
                       (long long)stride[AF_BOX_BATCH], (long long)stride[AF_BOX_HEAD],
                       (long long)stride[AF_BOX_ROW]);
    layout->output[layout->count++] = output;
    return ANYFLASH_OK;
}

static enum anyflash_status add_tensor(struct layout *layout, const struct tensor_row *row,
                                       struct anyflash_error *err)
{
    const struct anyflash_tensor *t = row->tensor;
    bool empty = row->extent[AF_BOX_BATCH] == 0 || row->extent[AF_BOX_HEAD] == 0 ||
                 row->extent[AF_BOX_ROW] == 0 || row->run == 0;
    if (t->data == NULL && !row->needed)
        return ANYFLASH_OK;
    enum anyflash_status status = check_dtype(row, err);
    if (status != ANYFLASH_OK)
        return status;
    if (t->data == NULL)
        return empty ? ANYFLASH_OK
                     : af_fail(err, ANYFLASH_E_ARGUMENT, "%s.data is NULL; %s is needed",
                               row->name, row->name);
    const int64_t stride[AF_BOX_DIMS] = {t->batch_stride, t->head_stride, t->row_stride};
    return add_box(layout, row->name, t->data, af_dtype_bytes(t->dtype), row->output,
                   row->extent, stride, row->run, err);
}

static enum anyflash_status add_tensors(struct layout *layout,
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
    unsigned of_q = FLOATS & (a->q.dtype >= 0 && a->q.dtype < 32 ? BIT(a->q.dtype) : 0u);
    const struct tensor_row rows[] = {
        {"q", &a->q, FLOATS, true, false, {q_batch, a->heads, q_rows}, a->head_dim},
        {"k", &a->k, of_q, true, append, {k_batch, a->kv_heads, k_rows}, a->head_dim},
        {"v", &a->v, of_q, true, append, {k_batch, a->kv_heads, k_rows}, a->value_dim},
        {"o",
         &a->o,
         of_q | BIT(ANYFLASH_F32),
         true,
         true,
         {q_batch, a->heads, q_rows},
         a->value_dim},
        {"bias", &a->bias, FLOATS, false, false, {a->batch, a->heads, a->q_len}, a->k_len},
        {"mask",
         &a->mask,
         BIT(ANYFLASH_BOOL),
         false,
         false,
         {a->batch, a->heads, a->q_len},
         a->k_len},
        {"k_new",
         &a->k_new,
         of_q,
         append,
         false,
         {a->batch, a->kv_heads, a->new_len},
         a->head_dim},
        {"v_new",
         &a->v_new,
         of_q,
         append,
         false,
         {a->batch, a->kv_heads, a->new_len},
         a->value_dim},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        enum anyflash_status status = add_tensor(layout, &rows[i], err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

/* All arrays have elements of 4 bytes. */
static enum anyflash_status add_arrays(struct layout *layout,
                                       const struct anyflash_attend_args *a,
                                       struct anyflash_error *err)
{
    bool packed = a->cu_seqlens_q != NULL;
    int64_t table = a->block_table_stride, half = a->rotary_dim / 2;
    const struct array_row rows[] = {
        {"lse",
         a->lse,
         true,
         {packed ? 1 : a->batch, a->heads, 1},
         {a->lse_batch_stride, a->lse_head_stride, 0},
         packed ? a->total_q : a->q_len},
        {"alibi_slopes",
         a->alibi_slopes,
         false,
         {a->batch, 1, 1},
         {a->alibi_batch_stride, 0, 0},
         a->heads},
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
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const struct array_row *row = &rows[i];
        enum anyflash_status status = ANYFLASH_OK;
        if (row->data != NULL)
            status = add_box(layout, row->name, row->data, 4, row->output, row->extent,
                             row->stride, row->run, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_check_layouts(const struct anyflash_attend_args *args,
                                      struct anyflash_error *err)
{
    struct layout layout;
    layout.count = 0;
    enum anyflash_status status = add_tensors(&layout, args, err);
    if (status == ANYFLASH_OK)
        status = add_arrays(&layout, args, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < layout.count; i++) {
        for (size_t j = 0; layout.output[i] && j < layout.count; j++) {
            if (j == i || (j < i && layout.output[j]) ||
                !af_box_meets(&layout.box[i], &layout.box[j]))
                continue;
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "%s at 0x%llx overlaps %s at 0x%llx; what is written must lie apart",
                           layout.box[i].name, (unsigned long long)layout.box[i].low,
                           layout.box[j].name, (unsigned long long)layout.box[j].low);
        }
    }
    return status;
}
