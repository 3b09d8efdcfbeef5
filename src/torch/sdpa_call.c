/*
 * sdpa_call.c: slots of the dispatcher's stack become a problem of the engine.
 */
#include "torch/sdpa_call.h"

#include <string.h>

/* Slots hold pointers and doubles as bits. */
static void *pointer_of(uint64_t slot)
{
    void *pointer;
    memcpy(&pointer, &slot, sizeof pointer);
    return pointer;
}

static double number_of(uint64_t slot)
{
    double number;
    memcpy(&number, &slot, sizeof number);
    return number;
}

/* An undefined tensor has one dimension of size 0; a mask never has. */
static bool is_undefined(const struct af_torch_shim *shim, af_torch_tensor tensor)
{
    int64_t dim = 0;
    int64_t *sizes = NULL;
    return shim->aoti_torch_get_dim(tensor, &dim) == 0 && dim == 1 &&
           shim->aoti_torch_get_sizes(tensor, &sizes) == 0 && sizes[0] == 0;
}

void af_sdpa_call_open(const struct af_torch_shim *shim, const uint64_t *stack,
                       size_t tensor_count, struct af_sdpa_call *call)
{
    *call = (struct af_sdpa_call){.shim = shim, .tensor_count = tensor_count};
    for (size_t i = 0; i < tensor_count; i++)
        call->tensors[i] = pointer_of(stack[i]);
    call->dropout = number_of(stack[tensor_count]);
    call->causal = (stack[tensor_count + 1] & 0xff) != 0;
    call->mask_cell = pointer_of(stack[tensor_count + 2]);
    call->scale_cell = pointer_of(stack[tensor_count + 3]);
    if (call->mask_cell != NULL)
        call->mask = pointer_of(*(const uint64_t *)call->mask_cell);
    if (call->mask != NULL && is_undefined(shim, call->mask)) {
        call->undefined_mask = call->mask;
        call->mask = NULL;
    }
    if (call->scale_cell != NULL)
        call->scale = number_of(*(const uint64_t *)call->scale_cell);
}

void af_sdpa_call_close(struct af_sdpa_call *call)
{
    for (size_t i = 0; i < call->tensor_count; i++)
        call->shim->aoti_torch_delete_tensor_object(call->tensors[i]);
    if (call->mask != NULL)
        call->shim->aoti_torch_delete_tensor_object(call->mask);
    if (call->undefined_mask != NULL)
        call->shim->aoti_torch_delete_tensor_object(call->undefined_mask);
    if (call->mask_cell != NULL)
        call->shim->delete_cell(call->mask_cell);
    if (call->scale_cell != NULL)
        call->shim->delete_cell(call->scale_cell);
}

struct anyflash_tensor af_sdpa_tensor(const struct af_torch_view *view)
{
    struct anyflash_tensor tensor = ANYFLASH_TENSOR_NONE;
    tensor.data = view->data;
    tensor.dtype = view->dtype;
    tensor.batch_stride = view->strides[0];
    tensor.head_stride = view->strides[1];
    tensor.row_stride = view->strides[2];
    return tensor;
}

/* [B, H, S, D] of a known type with elements side by side, and nothing empty. */
static bool is_rows(const struct af_torch_view *view)
{
    if (view->dim != 4 || view->dtype == 0)
        return false;
    for (int i = 0; i < 4; i++)
        if (view->sizes[i] < 1)
            return false;
    return view->strides[3] == 1 || view->sizes[3] == 1;
}

/* The mask as a bias: [Sq, Sk] or [B or 1, H or 1, Sq or 1, Sk]. */
static bool take_mask(const struct af_torch_view *mask, struct anyflash_attend_args *args)
{
    const int64_t wanted[4] = {args->batch, args->heads, args->q_len, args->k_len};
    int64_t strides[4] = {0, 0, 0, 0};
    if ((mask->dim != 2 && mask->dim != 4) || mask->dtype == 0)
        return false;
    for (int64_t i = 0; i < mask->dim; i++) {
        int64_t at = 4 - mask->dim + i;
        if (mask->sizes[i] != wanted[at] && mask->sizes[i] != 1)
            return false;
        strides[at] = mask->sizes[i] == 1 ? 0 : mask->strides[i];
    }
    if (mask->sizes[mask->dim - 1] != args->k_len || (args->k_len > 1 && strides[3] != 1))
        return false;
    args->bias.data = mask->data;
    args->bias.dtype = mask->dtype;
    args->bias.batch_stride = strides[0];
    args->bias.head_stride = strides[1];
    args->bias.row_stride = strides[2];
    return true;
}

static bool sizes_agree(const struct af_torch_view *q, const struct af_torch_view *k,
                        const struct af_torch_view *v)
{
    return k->dtype == q->dtype && v->dtype == q->dtype && k->sizes[0] == q->sizes[0] &&
           v->sizes[0] == q->sizes[0] && v->sizes[1] == k->sizes[1] &&
           v->sizes[2] == k->sizes[2] && k->sizes[3] == q->sizes[3] &&
           q->sizes[1] % k->sizes[1] == 0;
}

bool af_sdpa_call_problem(const struct af_sdpa_call *call, size_t first,
                          struct anyflash_attend_args *args)
{
    struct af_torch_view q;
    struct af_torch_view k;
    struct af_torch_view v;
    struct af_torch_view mask;
    /* A scale of 0 would mean the default to the engine. */
    if (call->dropout != 0.0 || (call->scale_cell != NULL && call->scale == 0.0))
        return false;
    if (!af_torch_view_of(call->shim, call->tensors[first], &q) ||
        !af_torch_view_of(call->shim, call->tensors[first + 1], &k) ||
        !af_torch_view_of(call->shim, call->tensors[first + 2], &v))
        return false;
    if (!is_rows(&q) || !is_rows(&k) || !is_rows(&v) || !sizes_agree(&q, &k, &v))
        return false;
    args->batch = q.sizes[0];
    args->heads = q.sizes[1];
    args->kv_heads = k.sizes[1];
    args->q_len = q.sizes[2];
    args->k_len = k.sizes[2];
    args->head_dim = q.sizes[3];
    args->value_dim = v.sizes[3];
    args->q = af_sdpa_tensor(&q);
    args->k = af_sdpa_tensor(&k);
    args->v = af_sdpa_tensor(&v);
    args->scale = (float)call->scale; /* 0: 1 / sqrt(D), as torch has it */
    args->causal = call->causal;
    args->align = ANYFLASH_ALIGN_TOP_LEFT;
    return call->mask == NULL ||
           (af_torch_view_of(call->shim, call->mask, &mask) && take_mask(&mask, args));
}
