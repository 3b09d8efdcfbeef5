/*
 * flash_results.c: outputs as torch's Meta kernels promise them, and failures as
 * exceptions.
 */
#include "bindings/torch/flash_results.h"

#include <stdio.h>

#include "bindings/torch/switch.h"
#include "bindings/torch/threads.h"

enum anyflash_status af_torch_flash_begin(struct anyflash_error *err)
{
    if (!af_torch_is_on())
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "it is disabled, and torch has no "
                       "FlashAttention of its own for the CPU");
    af_torch_count_call();
    return ANYFLASH_OK;
}

void af_torch_flash_drop(af_torch_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i] != NULL)
            af_torch.aoti_torch_delete_tensor_object(tensors[i]);
        tensors[i] = NULL;
    }
}

void af_torch_flash_finish(enum anyflash_status status, const struct anyflash_error *err,
                           af_torch_tensor *results, size_t count, uint64_t *stack)
{
    char message[sizeof err->message + 32];
    if (status != ANYFLASH_OK)
        af_torch_flash_drop(results, count);
    for (size_t i = 0; i < count; i++)
        stack[i] = af_torch_slot_of(results[i]);
    if (status == ANYFLASH_OK)
        return;
    snprintf(message, sizeof message, "anyflash: %s", err->message);
    af_torch_throw(&af_torch, message);
}

af_torch_tensor af_torch_flash_new_lse(const struct anyflash_attend_args *args)
{
    bool packed = args->cu_seqlens_q != NULL;
    int64_t rows = packed ? args->total_q : args->q_len;
    const int64_t sizes[3] = {args->batch, args->heads, rows};
    const int64_t strides[3] = {args->heads * rows, rows, 1};
    int64_t from = packed ? 1 : 0;
    return af_torch_new(&af_torch, 3 - from, sizes + from, strides + from, ANYFLASH_F32);
}

enum anyflash_status af_torch_flash_take_lse(af_torch_tensor lse,
                                             struct anyflash_attend_args *args,
                                             struct anyflash_error *err)
{
    struct af_torch_view view;
    int64_t dim = args->cu_seqlens_q != NULL ? 2 : 3;
    int64_t rows = dim == 2 ? args->total_q : args->q_len;
    if (!af_torch_view_of(&af_torch, lse, &view) || view.dim != dim ||
        view.dtype != ANYFLASH_F32 || view.sizes[dim - 1] != rows ||
        view.sizes[dim - 2] != args->heads || (dim == 3 && view.sizes[0] != args->batch) ||
        (rows > 1 && view.strides[dim - 1] != 1))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "logsumexp is not float32 [%s%lld, %lld] with contiguous rows",
                       dim == 3 ? "batch, " : "", (long long)args->heads, (long long)rows);
    args->lse = view.data;
    args->lse_head_stride = view.strides[dim - 2];
    args->lse_batch_stride = dim == 3 ? view.strides[0] : 0;
    return ANYFLASH_OK;
}

void af_torch_flash_output_sizes(const struct af_torch_view *q,
                                 const struct anyflash_attend_args *args,
                                 int64_t sizes[AF_TORCH_DIM_MAX])
{
    for (int64_t i = 0; i < q->dim; i++)
        sizes[i] = q->sizes[i];
    sizes[q->dim - 1] = args->value_dim;
}

enum anyflash_status af_torch_flash_take_output(const struct af_torch_flash_call *call,
                                                af_torch_tensor out,
                                                struct anyflash_attend_args *args,
                                                struct anyflash_error *err)
{
    struct af_torch_view q;
    struct af_torch_view o;
    int64_t sizes[AF_TORCH_DIM_MAX];
    if (!af_torch_view_of(&af_torch, call->q, &q))
        return af_fail(err, ANYFLASH_E_INTERNAL, "query has no memory");
    af_torch_flash_output_sizes(&q, args, sizes);
    enum anyflash_status status = af_torch_flash_rows(call, "out", out, q.dim, &o, err);
    if (status != ANYFLASH_OK)
        return status;
    for (int64_t i = 0; i < q.dim; i++)
        if (o.sizes[i] != sizes[i])
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "out has size %lld in dimension %lld, "
                           "expected %lld",
                           (long long)o.sizes[i], (long long)i, (long long)sizes[i]);
    if (o.dtype != q.dtype)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "out has another type than query");
    args->o = af_torch_flash_tensor(&o);
    return ANYFLASH_OK;
}

enum anyflash_status af_torch_flash_context(struct anyflash_context **context_out,
                                            struct anyflash_error *err)
{
    *context_out = af_torch_context(af_torch.libtorch_cpu);
    return *context_out != NULL ? ANYFLASH_OK : af_fail_memory(err);
}
