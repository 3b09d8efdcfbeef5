/*
 * sdpa_call.c: slots of the dispatcher's stack become a problem of the engine.
 */
#include "bindings/torch/sdpa_call.h"

#include <string.h>

void af_sdpa_call_open(const struct af_torch_shim *shim, const uint64_t *stack,
                       size_t tensor_count, struct af_sdpa_call *call)
{
    af_torch_arguments_open(shim, tensor_count == 3 ? "TTTFBtf" : "TTTTTTFBtf", stack,
                            tensor_count + 4, &call->arguments);
    call->dropout = af_torch_float_at(&call->arguments, tensor_count, 0.0);
    call->causal = af_torch_bool_at(&call->arguments, tensor_count + 1);
    call->mask = af_torch_tensor_at(&call->arguments, tensor_count + 2);
    call->scaled = call->arguments.given[tensor_count + 3];
    call->scale = af_torch_float_at(&call->arguments, tensor_count + 3, 0.0);
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

static bool view_at(const struct af_sdpa_call *call, size_t index, struct af_torch_view *view)
{
    return af_torch_view_of(call->arguments.shim, af_torch_tensor_at(&call->arguments, index),
                            view);
}

bool af_sdpa_call_problem(const struct af_sdpa_call *call, size_t first,
                          struct anyflash_attend_args *args)
{
    struct af_torch_view q;
    struct af_torch_view k;
    struct af_torch_view v;
    struct af_torch_view mask;
    /* A scale of 0 would mean the default to the engine. */
    if (call->dropout != 0.0 || (call->scaled && call->scale == 0.0))
        return false;
    if (!view_at(call, first, &q) || !view_at(call, first + 1, &k) ||
        !view_at(call, first + 2, &v))
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
    return call->mask == NULL || (af_torch_view_of(call->arguments.shim, call->mask, &mask) &&
                                  take_mask(&mask, args));
}
