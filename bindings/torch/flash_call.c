/*
 * flash_call.c: converts slots of the dispatcher's stack to a problem for the
 * engine. Checks each tensor's type and layout; the engine itself checks
 * lengths, page tables and whether sizes agree.
 */
#include "bindings/torch/flash_call.h"

/* Positions after q, k, v (and what precedes them), the same in all operators. */
enum { CU_Q = 3, CU_K = 4, MAX_Q = 5, MAX_K = 6, DROPOUT = 7, CAUSAL = 8 };

static void open_forward(struct af_torch_flash_call *call, size_t first)
{
    const struct af_torch_arguments *given = &call->arguments;
    call->debug_mask = af_torch_bool_at(given, first + 9);
    call->scaled = given->given[first + 10];
    call->scale = af_torch_float_at(given, first + 10, 0.0);
    call->window_left = af_torch_integer_at(given, first + 11, -1);
    call->window_right = af_torch_integer_at(given, first + 12, -1);
    call->seqused_k = af_torch_tensor_at(given, first + 13);
    call->alibi_slopes = af_torch_tensor_at(given, first + 14);
    call->block_table = af_torch_tensor_at(given, first + 15);
}

static void open_backward(struct af_torch_flash_call *call)
{
    const struct af_torch_arguments *given = &call->arguments;
    call->dout = af_torch_tensor_at(given, 0);
    call->out = af_torch_tensor_at(given, 4);
    call->lse = af_torch_tensor_at(given, 5);
    call->rng_state = af_torch_tensor_at(given, 12);
    call->scaled = given->given[14];
    call->scale = af_torch_float_at(given, 14, 0.0);
    call->window_left = af_torch_integer_at(given, 15, -1);
    call->window_right = af_torch_integer_at(given, 16, -1);
}

void af_torch_flash_call_open(const struct af_torch_shim *shim,
                              enum af_torch_flash_operator operation, const uint64_t *stack,
                              uint64_t count, struct af_torch_flash_call *call)
{
    static const char *const letters[] = {
        [AF_TORCH_FLASH_FORWARD] = "TTTttIIFBBfiittti",
        [AF_TORCH_FLASH_FORWARD_OUT] = "TTTTttIIFBBfiittti",
        [AF_TORCH_FLASH_BACKWARD] = "TTTTTTUUIIFBUUfii",
    };
    const bool backward = operation == AF_TORCH_FLASH_BACKWARD;
    const size_t first = operation == AF_TORCH_FLASH_FORWARD ? 0 : 1;
    const size_t shared = backward ? 3 : first; /* out and lse come between */
    *call = (struct af_torch_flash_call){0};
    struct af_torch_arguments *given = &call->arguments;
    af_torch_arguments_open(shim, letters[operation], stack, count, given);
    call->q = af_torch_tensor_at(given, first);
    call->k = af_torch_tensor_at(given, first + 1);
    call->v = af_torch_tensor_at(given, first + 2);
    call->cu_seqlens_q = af_torch_tensor_at(given, shared + CU_Q);
    call->cu_seqlens_k = af_torch_tensor_at(given, shared + CU_K);
    call->max_q = af_torch_integer_at(given, shared + MAX_Q, 0);
    call->max_k = af_torch_integer_at(given, shared + MAX_K, 0);
    call->dropout = af_torch_float_at(given, shared + DROPOUT, 0.0);
    call->causal = af_torch_bool_at(given, shared + CAUSAL);
    if (backward)
        open_backward(call);
    else
        open_forward(call, first);
    if (operation == AF_TORCH_FLASH_FORWARD_OUT)
        call->out = af_torch_tensor_at(given, 0);
}

struct anyflash_tensor af_torch_flash_tensor(const struct af_torch_view *view)
{
    struct anyflash_tensor tensor = ANYFLASH_TENSOR_NONE;
    const int64_t *strides = view->strides + view->dim - 3;
    tensor.data = view->data;
    tensor.dtype = view->dtype;
    tensor.batch_stride = view->dim == 4 ? view->strides[0] : 0;
    tensor.row_stride = strides[0];
    tensor.head_stride = strides[1];
    return tensor;
}

static enum anyflash_status look(const struct af_torch_flash_call *call, const char *name,
                                 af_torch_tensor tensor, struct af_torch_view *view_out,
                                 struct anyflash_error *err)
{
    const struct af_torch_shim *shim = call->arguments.shim;
    int32_t device = 0;
    if (tensor == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is None", name);
    if (shim->aoti_torch_get_device_type(tensor, &device) != 0 || device != shim->cpu)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is not on the CPU", name);
    if (!af_torch_view_of(shim, tensor, view_out))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: its memory cannot be accessed", name);
    return ANYFLASH_OK;
}

static bool last_is_contiguous(const struct af_torch_view *view)
{
    return view->sizes[view->dim - 1] <= 1 || view->strides[view->dim - 1] == 1;
}

enum anyflash_status af_torch_flash_rows(const struct af_torch_flash_call *call,
                                         const char *name, af_torch_tensor tensor, int64_t dim,
                                         struct af_torch_view *view_out,
                                         struct anyflash_error *err)
{
    enum anyflash_status status = look(call, name, tensor, view_out, err);
    if (status != ANYFLASH_OK)
        return status;
    if (view_out->dim != dim)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s has %lld dimensions, expected %lld", name,
                       (long long)view_out->dim, (long long)dim);
    if (view_out->dtype == 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "%s is not float32, float16 or bfloat16",
                       name);
    if (!last_is_contiguous(view_out))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: its last dimension is not contiguous",
                       name);
    return ANYFLASH_OK;
}

/* Reads an int32 array of `count` elements; of any number when it is -1. */
static enum anyflash_status take_integers(const struct af_torch_flash_call *call,
                                          const char *name, af_torch_tensor tensor,
                                          int64_t count, const int32_t **data_out,
                                          int64_t *count_out, struct anyflash_error *err)
{
    struct af_torch_view view;
    if (tensor == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = look(call, name, tensor, &view, err);
    if (status != ANYFLASH_OK)
        return status;
    if (view.torch_dtype != call->arguments.shim->i32)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is not int32", name);
    if (view.dim != 1 || !last_is_contiguous(&view) || view.sizes[0] < 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is not one contiguous dimension", name);
    if (count >= 0 && view.sizes[0] != count)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s has %lld elements, expected %lld", name,
                       (long long)view.sizes[0], (long long)count);
    *data_out = view.data;
    if (count_out != NULL)
        *count_out = view.sizes[0];
    return ANYFLASH_OK;
}

static enum anyflash_status take_slopes(const struct af_torch_flash_call *call,
                                        struct anyflash_attend_args *args,
                                        struct anyflash_error *err)
{
    struct af_torch_view view;
    if (call->alibi_slopes == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = look(call, "alibi_slopes", call->alibi_slopes, &view, err);
    if (status != ANYFLASH_OK)
        return status;
    if (view.dtype != ANYFLASH_F32 || (view.dim != 1 && view.dim != 2) ||
        view.sizes[view.dim - 1] != args->heads || !last_is_contiguous(&view) ||
        (view.dim == 2 && view.sizes[0] != args->batch))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "alibi_slopes is not float32 [%lld] or [%lld, %lld]",
                       (long long)args->heads, (long long)args->batch, (long long)args->heads);
    args->alibi_slopes = view.data;
    args->alibi_batch_stride = view.dim == 2 ? view.strides[0] : 0;
    return ANYFLASH_OK;
}

static enum anyflash_status take_pages(const struct af_torch_flash_call *call,
                                       const struct af_torch_view *k,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    struct af_torch_view view;
    if (call->block_table == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = look(call, "block_table", call->block_table, &view, err);
    if (status != ANYFLASH_OK)
        return status;
    if (call->seqused_k == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "seqused_k is None; block_table needs it");
    if (view.torch_dtype != call->arguments.shim->i32 || view.dim != 2 ||
        view.sizes[0] != args->batch || !last_is_contiguous(&view))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "block_table is not int32 [%lld, pages]",
                       (long long)args->batch);
    args->block_table = view.data;
    args->block_table_stride = view.strides[0];
    args->page_size = k->sizes[1];
    args->page_count = k->sizes[0];
    args->k_len = view.sizes[1] * k->sizes[1];
    return ANYFLASH_OK;
}

/* Reads lengths as arrays and as extents; `rows` is the dimension of S or total. */
static enum anyflash_status take_lengths(const struct af_torch_flash_call *call,
                                         const struct af_torch_view *q,
                                         const struct af_torch_view *k,
                                         struct anyflash_attend_args *args,
                                         struct anyflash_error *err)
{
    int64_t bounds = 0;
    enum anyflash_status status = take_integers(call, "cum_seq_q", call->cu_seqlens_q, -1,
                                                &args->cu_seqlens_q, &bounds, err);
    args->batch = args->cu_seqlens_q != NULL ? bounds - 1 : q->sizes[0];
    args->q_len = args->cu_seqlens_q != NULL ? call->max_q : q->sizes[1];
    args->total_q = args->cu_seqlens_q != NULL ? q->sizes[0] : 0;
    args->k_len = k->sizes[1];
    if (status == ANYFLASH_OK && k->dim == 3) {
        args->k_len = call->max_k;
        args->total_k = k->sizes[0];
        status = take_integers(call, "cum_seq_k", call->cu_seqlens_k, args->batch + 1,
                               &args->cu_seqlens_k, NULL, err);
    }
    if (status == ANYFLASH_OK)
        status = take_integers(call, "seqused_k", call->seqused_k, args->batch,
                               &args->seqused_k, NULL, err);
    return status == ANYFLASH_OK ? take_pages(call, k, args, err) : status;
}

static enum anyflash_status check_sizes(const struct af_torch_view *q,
                                        const struct af_torch_view *k,
                                        const struct af_torch_view *v, int64_t batch,
                                        bool paged, struct anyflash_error *err)
{
    const int64_t dim = k->dim;
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "query, key and value have different types");
    if (k->sizes[dim - 1] != q->sizes[q->dim - 1])
        return af_fail(err, ANYFLASH_E_ARGUMENT, "key has head size %lld, query %lld",
                       (long long)k->sizes[dim - 1], (long long)q->sizes[q->dim - 1]);
    for (int64_t i = 0; i < dim - 1; i++)
        if (v->sizes[i] != k->sizes[i])
            return af_fail(err, ANYFLASH_E_ARGUMENT, "value has size %lld, key %lld (dim %lld)",
                           (long long)v->sizes[i], (long long)k->sizes[i], (long long)i);
    if (dim == 4 && !paged && k->sizes[0] != batch)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "key has batch size %lld, query %lld",
                       (long long)k->sizes[0], (long long)batch);
    return ANYFLASH_OK;
}

/* Reads the options that are not tensors. */
static enum anyflash_status take_options(const struct af_torch_flash_call *call,
                                         struct anyflash_attend_args *args,
                                         struct anyflash_error *err)
{
    if (call->debug_mask)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "return_debug_mask is not for the CPU");
    if (call->scaled && (float)call->scale == 0.0f)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "scale is 0");
    args->scale = (float)call->scale;
    args->causal = call->causal;
    args->align = ANYFLASH_ALIGN_BOTTOM_RIGHT;
    args->window_left = call->window_left < 0 ? -1 : call->window_left;
    args->window_right = call->window_right < 0 ? -1 : call->window_right;
    args->dropout = (float)call->dropout;
    return ANYFLASH_OK;
}

enum anyflash_status af_torch_flash_call_problem(const struct af_torch_flash_call *call,
                                                 struct anyflash_attend_args *args,
                                                 struct anyflash_error *err)
{
    struct af_torch_view q;
    struct af_torch_view k;
    struct af_torch_view v;
    const bool paged = call->block_table != NULL;
    const int64_t k_dim = !paged && call->cu_seqlens_k != NULL ? 3 : 4;
    enum anyflash_status status = take_options(call, args, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_rows(call, "query", call->q, call->cu_seqlens_q != NULL ? 3 : 4,
                                     &q, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_rows(call, "key", call->k, k_dim, &k, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_rows(call, "value", call->v, k_dim, &v, err);
    if (status == ANYFLASH_OK)
        status = take_lengths(call, &q, &k, args, err);
    if (status == ANYFLASH_OK)
        status = check_sizes(&q, &k, &v, args->batch, paged, err);
    if (status != ANYFLASH_OK)
        return status;
    args->heads = q.sizes[q.dim - 2];
    args->head_dim = q.sizes[q.dim - 1];
    args->kv_heads = k.sizes[k.dim - 2];
    args->value_dim = v.sizes[v.dim - 1];
    args->q = af_torch_flash_tensor(&q);
    args->k = af_torch_flash_tensor(&k);
    args->v = af_torch_flash_tensor(&v);
    return take_slopes(call, args, err);
}
