/*
 * layout.c: makes the boxes of tensors and arrays, and checks them alone and
 * against each other. See layout.h.
 */
#include "engine/attn/layout.h"

#include <stdio.h>

/* Adds (extent - 1) * stride * element_bytes to *sum; false when that overflows. */
static bool span_add(int64_t extent, int64_t stride, int64_t element_bytes, int64_t *sum)
{
    int64_t bytes;
    return !__builtin_mul_overflow(extent - 1, stride, &bytes) &&
           !__builtin_mul_overflow(bytes, element_bytes, &bytes) &&
           !__builtin_add_overflow(*sum, bytes, sum) && *sum <= PTRDIFF_MAX &&
           *sum >= -PTRDIFF_MAX;
}

int af_box_init(struct af_box *box, const char *name, const void *data, int64_t element_bytes,
                const int64_t extent[AF_BOX_DIMS], const int64_t stride[AF_BOX_DIMS],
                int64_t run)
{
    int64_t below = 0;
    int64_t above = run * element_bytes;
    *box = (struct af_box){.name = name, .run_bytes = above};
    for (int d = 0; d < AF_BOX_DIMS; d++)
        box->extent[d] = extent[d];
    if (extent[AF_BOX_BATCH] == 0 || extent[AF_BOX_HEAD] == 0 || extent[AF_BOX_ROW] == 0)
        return AF_BOX_DIMS;
    for (int d = 0; d < AF_BOX_DIMS; d++) {
        int64_t used = extent[d] == 1 ? 0 : stride[d];
        if (!span_add(extent[d], used, element_bytes, used < 0 ? &below : &above))
            return d;
        box->stride_bytes[d] = (used < 0 ? -used : used) * element_bytes;
    }
    if (above > PTRDIFF_MAX + below || (uintptr_t)data < (uintptr_t)-below ||
        (uintptr_t)data > UINTPTR_MAX - (uintptr_t)above)
        return AF_BOX_BATCH;
    box->low = (uintptr_t)data + (uintptr_t)below;
    box->span_bytes = run == 0 ? 0 : above - below;
    return AF_BOX_DIMS;
}

/* Sorts dimensions from the longest stride to the shortest. */
static void order_of(const int64_t stride_bytes[AF_BOX_DIMS], int order[AF_BOX_DIMS])
{
    for (int d = 0; d < AF_BOX_DIMS; d++) {
        int at = d;
        for (; at > 0 && stride_bytes[order[at - 1]] < stride_bytes[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* Whether each stride, longest first, covers all of the box inside it. */
static bool holds_inside(const struct af_box *box, const int64_t stride_bytes[AF_BOX_DIMS],
                         const int order[AF_BOX_DIMS])
{
    int64_t inner_bytes = box->run_bytes;
    for (int at = AF_BOX_DIMS - 1; at >= 0; at--) {
        int d = order[at];
        if (stride_bytes[d] == 0 && box->extent[d] == 1)
            continue;
        if (stride_bytes[d] < inner_bytes)
            return false;
        inner_bytes += (box->extent[d] - 1) * stride_bytes[d];
    }
    return true;
}

bool af_box_nests(const struct af_box *box)
{
    int order[AF_BOX_DIMS] = {0};
    order_of(box->stride_bytes, order);
    return box->span_bytes == 0 || holds_inside(box, box->stride_bytes, order);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/*
 * Two nested lattices of the same strides overlap when the distance of their
 * origins is a sum of m * stride with every m within the extents, up to a
 * remainder shorter than a row. From the longest stride inwards, only the two
 * multiples around the remainder are possible, because everything inside is
 * shorter than the stride. Bit d of `choice` selects the upper one in dimension
 * d.
 */
static bool meets_with(const struct af_box *a, const struct af_box *b,
                       const int64_t stride_bytes[AF_BOX_DIMS], const int order[AF_BOX_DIMS],
                       unsigned choice)
{
    int64_t rest = (int64_t)(b->low - a->low);
    for (int at = 0; at < AF_BOX_DIMS; at++) {
        int d = order[at];
        if (stride_bytes[d] == 0)
            continue;
        int64_t m = floor_div(rest, stride_bytes[d]) + (choice >> d & 1u);
        if (m >= a->extent[d] || m <= -b->extent[d])
            return false;
        rest -= m * stride_bytes[d];
    }
    return rest < a->run_bytes && rest > -b->run_bytes;
}

bool af_box_meets(const struct af_box *a, const struct af_box *b)
{
    int64_t stride_bytes[AF_BOX_DIMS];
    int order[AF_BOX_DIMS] = {0};
    if (a->span_bytes == 0 || b->span_bytes == 0 ||
        a->low >= b->low + (uintptr_t)b->span_bytes ||
        b->low >= a->low + (uintptr_t)a->span_bytes)
        return false;
    for (int d = 0; d < AF_BOX_DIMS; d++) {
        stride_bytes[d] = a->extent[d] > 1 ? a->stride_bytes[d] : b->stride_bytes[d];
        if (a->extent[d] > 1 && b->extent[d] > 1 && a->stride_bytes[d] != b->stride_bytes[d])
            return true;
    }
    order_of(stride_bytes, order);
    if (!holds_inside(a, stride_bytes, order) || !holds_inside(b, stride_bytes, order))
        return true;
    for (unsigned choice = 0; choice < 1u << AF_BOX_DIMS; choice++) {
        if (meets_with(a, b, stride_bytes, order, choice))
            return true;
    }
    return false;
}

unsigned af_dtype_bit(int32_t dtype)
{
    return dtype >= ANYFLASH_F32 && dtype <= ANYFLASH_BF16 ? AF_DTYPE_BIT(dtype) : 0;
}

static enum anyflash_status check_dtype(const struct af_layout_tensor *row,
                                        struct anyflash_error *err)
{
    static const char *const names[] = {"",         "f32 (1)",     "f16 (2)",    "bf16 (3)",
                                        "bool (4)", "f8_e4m3 (5)", "f8_e5m2 (6)"};
    int32_t dtype = row->tensor->dtype;
    bool known = dtype >= ANYFLASH_F32 && dtype <= ANYFLASH_F8_E5M2;
    if (row->tensor->reserved != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s.reserved is %d; it must be 0", row->name,
                       (int)row->tensor->reserved);
    if (known && (row->dtypes & AF_DTYPE_BIT(dtype)) != 0)
        return ANYFLASH_OK;
    const char *sep = "";
    char allowed[64] = "";
    size_t len = 0;
    for (int d = ANYFLASH_F32; d <= ANYFLASH_F8_E5M2; d++) {
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
                                       const struct af_layout_tensor *row,
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
                                       const struct af_layout_tensor *rows, size_t count,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = add_tensor(layout, &rows[i], err);
    return status;
}

enum anyflash_status af_layout_arrays(struct af_layout *layout,
                                      const struct af_layout_array *rows, size_t count,
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
            return af_fail(
                err, ANYFLASH_E_ARGUMENT,
                "%s at 0x%llx overlaps %s at 0x%llx; an output must not overlap anything else",
                layout->box[i].name, (unsigned long long)layout->box[i].low,
                layout->box[j].name, (unsigned long long)layout->box[j].low);
        }
    }
    return ANYFLASH_OK;
}
