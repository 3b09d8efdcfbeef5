/*
 * layout.c: boxes of tensors and arrays, checked one by one and against each
 * other. See layout.h.
 */
#include "engine/attn/layout.h"

#include <stdio.h>

unsigned af_dtype_bit(int32_t dtype)
{
    return dtype >= ANYFLASH_F32 && dtype <= ANYFLASH_BF16 ? AF_DTYPE_BIT(dtype) : 0;
}

static enum anyflash_status check_dtype(const struct af_row_of_tensor *row,
                                        struct anyflash_error *err)
{
    static const char *const names[] = {"", "f32 (1)", "f16 (2)", "bf16 (3)", "bool (4)"};
    int32_t dtype = row->tensor->dtype;
    bool known = dtype >= ANYFLASH_F32 && dtype <= ANYFLASH_BOOL;
    if (row->tensor->reserved != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s.reserved is %d; it must be 0", row->name,
                       (int)row->tensor->reserved);
    if (known && (row->dtypes & AF_DTYPE_BIT(dtype)) != 0)
        return ANYFLASH_OK;
    const char *sep = "";
    char allowed[64] = "";
    size_t len = 0;
    for (int d = ANYFLASH_F32; d <= ANYFLASH_BOOL; d++) {
        if ((row->dtypes & AF_DTYPE_BIT(d)) == 0)
            continue;
        len += (size_t)snprintf(allowed + len, sizeof allowed - len, "%s%s", sep, names[d]);
        sep = " or ";
    }
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s.dtype is %d; it must be %s", row->name,
                   (int)dtype, allowed);
}

/* Checks alignment and strides, and adds the box. */
static enum anyflash_status add_box(struct af_layout *layout, const char *name,
                                    const void *data, size_t element_bytes, bool output,
                                    const int64_t extent[AF_BOX_DIMS],
                                    const int64_t stride[AF_BOX_DIMS], int64_t run,
                                    struct anyflash_error *err)
{
    static const char *const dims[] = {"batch_stride", "head_stride", "row_stride"};
    struct af_box *box = &layout->box[layout->count];
    if (((uintptr_t)data & (element_bytes - 1)) != 0)
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

static enum anyflash_status add_tensor(struct af_layout *layout,
                                       const struct af_row_of_tensor *row,
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

enum anyflash_status af_layout_tensors(struct af_layout *layout,
                                       const struct af_row_of_tensor *rows, size_t count,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = add_tensor(layout, &rows[i], err);
    return status;
}

enum anyflash_status af_layout_arrays(struct af_layout *layout,
                                      const struct af_row_of_array *rows, size_t count,
                                      struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        if (rows[i].data != NULL)
            status = add_box(layout, rows[i].name, rows[i].data, 4, rows[i].output,
                             rows[i].extent, rows[i].stride, rows[i].run, err);
    }
    return status;
}

enum anyflash_status af_layout_check_apart(const struct af_layout *layout,
                                           struct anyflash_error *err)
{
    for (size_t i = 0; i < layout->count; i++) {
        for (size_t j = 0; layout->output[i] && j < layout->count; j++) {
            if (j == i || (j < i && layout->output[j]) ||
                !af_box_meets(&layout->box[i], &layout->box[j]))
                continue;
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "%s at 0x%llx overlaps %s at 0x%llx; what is written must lie apart",
                           layout->box[i].name, (unsigned long long)layout->box[i].low,
                           layout->box[j].name, (unsigned long long)layout->box[j].low);
        }
    }
    return ANYFLASH_OK;
}
