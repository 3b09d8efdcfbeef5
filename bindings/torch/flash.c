/*
 * flash.c: torch's FlashAttention operators: _flash_attention_forward, its form
 * that writes into an output of the caller, and its backward.
 *
 * Outputs match torch's Meta kernels: gradients have the memory order of their
 * tensors; the logsumexp of a row that sees no key is +infinity, as in
 * FlashAttention. Torch has no CPU kernel to fall back to, so failures are
 * exceptions, thrown after everything that a call owns is freed.
 */
#include "bindings/torch/flash.h"

#include <math.h>
#include <stdio.h>

#include "bindings/torch/flash_call.h"
#include "bindings/torch/switch.h"
#include "bindings/torch/tensors.h"
#include "bindings/torch/threads.h"

/* Counts a call; fails with UNSUPPORTED when the engine is switched off. */
static enum anyflash_status begin_call(struct anyflash_error *err)
{
    if (!af_torch_is_on())
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "it is disabled, and torch has no "
                       "FlashAttention of its own for the CPU");
    af_torch_count_call();
    return ANYFLASH_OK;
}

/* Deletes the tensors that are not NULL, and sets them to NULL. */
static void drop(af_torch_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i] != NULL)
            af_torch.aoti_torch_delete_tensor_object(tensors[i]);
        tensors[i] = NULL;
    }
}

/*
 * Puts the results on the stack or, when the status is not OK, deletes them and
 * throws. Call it last, with nothing left to free.
 */
static void finish(enum anyflash_status status, const struct anyflash_error *err,
                   af_torch_tensor *results, size_t count, uint64_t *stack)
{
    char message[sizeof err->message + 32];
    if (status != ANYFLASH_OK)
        drop(results, count);
    for (size_t i = 0; i < count; i++)
        stack[i] = af_torch_slot_of(results[i]);
    if (status == ANYFLASH_OK)
        return;
    snprintf(message, sizeof message, "anyflash: %s", err->message);
    af_torch_throw(&af_torch, message);
}

/*
 * Makes a contiguous logsumexp: [B, H, Sq] or, for packed queries, [H, total].
 * NULL: no memory.
 */
static af_torch_tensor new_lse(const struct anyflash_attend_args *args)
{
    bool packed = args->cu_seqlens_q != NULL;
    int64_t rows = packed ? args->total_q : args->q_len;
    const int64_t sizes[3] = {args->batch, args->heads, rows};
    const int64_t strides[3] = {args->heads * rows, rows, 1};
    int64_t from = packed ? 1 : 0;
    return af_torch_new(&af_torch, 3 - from, sizes + from, strides + from, ANYFLASH_F32);
}

/*
 * Uses `lse` as args->lse; fails with ARGUMENT unless it has the form that the
 * forward returns.
 */
static enum anyflash_status take_lse(af_torch_tensor lse, struct anyflash_attend_args *args,
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

/* Sizes of the output: those of the query, with the head size of the values. */
static void output_sizes(const struct af_torch_view *q, const struct anyflash_attend_args *args,
                         int64_t sizes[AF_TORCH_DIM_MAX])
{
    for (int64_t i = 0; i < q->dim; i++)
        sizes[i] = q->sizes[i];
    sizes[q->dim - 1] = args->value_dim;
}

/* Uses `out` as args->o; fails with ARGUMENT unless it has the output's sizes and type. */
static enum anyflash_status take_output(const struct af_torch_flash_call *call,
                                        af_torch_tensor out, struct anyflash_attend_args *args,
                                        struct anyflash_error *err)
{
    struct af_torch_view q;
    struct af_torch_view o;
    int64_t sizes[AF_TORCH_DIM_MAX];
    if (!af_torch_view_of(&af_torch, call->q, &q))
        return af_fail(err, ANYFLASH_E_INTERNAL, "query's memory cannot be accessed");
    output_sizes(&q, args, sizes);
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
        return af_fail(err, ANYFLASH_E_ARGUMENT, "out and query have different types");
    args->o = af_torch_flash_tensor(&o);
    return ANYFLASH_OK;
}

/* The engine's context on torch's threads. */
static enum anyflash_status context_of(struct anyflash_context **context_out,
                                       struct anyflash_error *err)
{
    *context_out = af_torch_context(af_torch.libtorch_cpu);
    return *context_out != NULL ? ANYFLASH_OK : af_fail_memory(err);
}

#define RESULTS_MAX 5

/* Replaces the engine's -infinity by FlashAttention's +infinity; rows are contiguous. */
static void flip_empty_rows(const struct anyflash_attend_args *args)
{
    int64_t rows = args->cu_seqlens_q != NULL ? args->total_q : args->batch * args->q_len;
    for (int64_t i = 0; i < args->heads * rows; i++)
        if (isinf(args->lse[i]) && args->lse[i] < 0)
            args->lse[i] = INFINITY;
}

static af_torch_tensor new_of(int32_t torch_dtype, int64_t dim, int64_t size)
{
    const int64_t one = 1;
    af_torch_tensor tensor = NULL;
    if (af_torch.aoti_torch_empty_strided(dim, &size, &one, torch_dtype, af_torch.cpu, 0,
                                          &tensor) != 0)
        return NULL;
    return tensor;
}

static enum anyflash_status attend(const struct af_torch_flash_call *call,
                                   struct anyflash_attend_args *args, af_torch_tensor out,
                                   af_torch_tensor lse, struct anyflash_error *err)
{
    struct anyflash_context *context = NULL;
    if (out == NULL || lse == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = take_output(call, out, args, err);
    if (status == ANYFLASH_OK)
        status = take_lse(lse, args, err);
    if (status == ANYFLASH_OK)
        status = context_of(&context, err);
    if (status == ANYFLASH_OK)
        status = anyflash_attend(context, args, err);
    if (status == ANYFLASH_OK)
        flip_empty_rows(args);
    return status;
}

/* Draws a number from torch's generator, so that torch.manual_seed() determines it. */
static enum anyflash_status draw_seed(uint64_t *seed_out, struct anyflash_error *err)
{
    struct af_torch_view view;
    uint64_t stack[2] = {0, 0}; /* the tensor, no generator */
    af_torch_tensor drawn = new_of(af_torch.i64, 1, 1);
    if (drawn == NULL)
        return af_fail_memory(err);
    stack[0] = af_torch_slot_of(drawn);
    if (af_torch.aoti_torch_call_dispatcher("aten::random_", "", stack) != 0)
        return af_fail(err, ANYFLASH_E_IO, "torch returned no random number for dropout");
    af_torch_tensor filled = af_torch_tensor_in(stack[0]);
    bool seen = af_torch_view_of(&af_torch, filled, &view);
    if (seen)
        *seed_out = *(const uint64_t *)view.data;
    af_torch.aoti_torch_delete_tensor_object(filled);
    return seen ? ANYFLASH_OK
                : af_fail(err, ANYFLASH_E_IO, "the random number's memory cannot be accessed");
}

/* Adds seed and offset, an unused number, and an empty debug mask. */
static enum anyflash_status add_rest(const struct anyflash_attend_args *args, int32_t dtype,
                                     af_torch_tensor results[RESULTS_MAX],
                                     struct anyflash_error *err)
{
    struct af_torch_view state;
    struct af_torch_view unused;
    results[2] = new_of(af_torch.u64, 1, 2);
    results[3] = new_of(af_torch.u64, 0, 1);
    results[4] = new_of(dtype, 1, 0);
    if (results[2] == NULL || results[3] == NULL || results[4] == NULL ||
        !af_torch_view_of(&af_torch, results[2], &state) ||
        !af_torch_view_of(&af_torch, results[3], &unused))
        return af_fail_memory(err);
    ((uint64_t *)state.data)[0] = args->dropout_seed;
    ((uint64_t *)state.data)[1] = args->dropout_offset;
    *(uint64_t *)unused.data = 0;
    return ANYFLASH_OK;
}

static enum anyflash_status forward(const struct af_torch_flash_call *call,
                                    af_torch_tensor results[RESULTS_MAX],
                                    struct anyflash_error *err)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    struct af_torch_view q;
    int64_t sizes[AF_TORCH_DIM_MAX];
    enum anyflash_status status = af_torch_flash_call_problem(call, &args, err);
    if (status == ANYFLASH_OK && args.dropout > 0)
        status = draw_seed(&args.dropout_seed, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!af_torch_view_of(&af_torch, call->q, &q))
        return af_fail(err, ANYFLASH_E_INTERNAL, "query's memory cannot be accessed");
    output_sizes(&q, &args, sizes);
    results[0] = af_torch_new_like(&af_torch, &q, sizes);
    results[1] = new_lse(&args);
    status = attend(call, &args, results[0], results[1], err);
    return status == ANYFLASH_OK ? add_rest(&args, q.torch_dtype, results, err) : status;
}

void af_torch_flash_forward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_torch_flash_call call;
    struct anyflash_error err = {0};
    af_torch_tensor results[RESULTS_MAX] = {NULL};
    (void)output_count;
    af_torch_flash_call_open(&af_torch, AF_TORCH_FLASH_FORWARD, stack, input_count, &call);
    enum anyflash_status status = begin_call(&err);
    if (status == ANYFLASH_OK)
        status = forward(&call, results, &err);
    af_torch_arguments_close(&call.arguments);
    finish(status, &err, results, RESULTS_MAX, stack);
}

static enum anyflash_status forward_out(const struct af_torch_flash_call *call,
                                        af_torch_tensor *lse, struct anyflash_error *err)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    enum anyflash_status status = af_torch_flash_call_problem(call, &args, err);
    if (status == ANYFLASH_OK && args.dropout > 0)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "dropout_p is not 0");
    if (status != ANYFLASH_OK)
        return status;
    *lse = new_lse(&args);
    return attend(call, &args, call->out, *lse, err);
}

void af_torch_flash_forward_out(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_torch_flash_call call;
    struct anyflash_error err = {0};
    af_torch_tensor lse = NULL;
    (void)output_count;
    af_torch_flash_call_open(&af_torch, AF_TORCH_FLASH_FORWARD_OUT, stack, input_count, &call);
    enum anyflash_status status = begin_call(&err);
    if (status == ANYFLASH_OK)
        status = forward_out(&call, &lse, &err);
    af_torch_arguments_close(&call.arguments);
    finish(status, &err, &lse, 1, stack);
}

/* Reads seed and offset as the forward stored them. */
static enum anyflash_status take_seed(const struct af_torch_flash_call *call,
                                      struct anyflash_attend_args *args,
                                      struct anyflash_error *err)
{
    struct af_torch_view view;
    if (args->dropout == 0)
        return ANYFLASH_OK;
    if (call->rng_state == NULL || !af_torch_view_of(&af_torch, call->rng_state, &view) ||
        view.torch_dtype != af_torch.u64 || view.dim != 1 || view.sizes[0] != 2)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "rng_state is not uint64 [2]");
    args->dropout_seed = ((const uint64_t *)view.data)[0];
    args->dropout_offset = ((const uint64_t *)view.data)[view.strides[0]];
    return ANYFLASH_OK;
}

/* Makes a gradient in the memory order of its tensor, for the engine to write. */
static enum anyflash_status add_gradient(af_torch_tensor of, af_torch_tensor *gradient_out,
                                         struct anyflash_tensor *place,
                                         struct anyflash_error *err)
{
    struct af_torch_view view;
    struct af_torch_view gradient;
    if (!af_torch_view_of(&af_torch, of, &view))
        return af_fail(err, ANYFLASH_E_INTERNAL, "a tensor's memory cannot be accessed");
    *gradient_out = af_torch_new_like(&af_torch, &view, view.sizes);
    if (*gradient_out == NULL || !af_torch_view_of(&af_torch, *gradient_out, &gradient))
        return af_fail_memory(err);
    *place = af_torch_flash_tensor(&gradient);
    return ANYFLASH_OK;
}

static enum anyflash_status attend_backward(const struct af_torch_flash_call *call,
                                            struct anyflash_attend_args *args,
                                            af_torch_tensor dout, af_torch_tensor gradients[3],
                                            struct anyflash_error *err)
{
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back, .forward = args};
    struct anyflash_context *context = NULL;
    struct anyflash_tensor o;
    enum anyflash_status status = take_output(call, call->out, args, err);
    o = args->o;
    if (status == ANYFLASH_OK)
        status = take_output(call, dout, args, err); /* as the output */
    back.dout = args->o;
    args->o = o;
    if (status == ANYFLASH_OK)
        status = take_lse(call->lse, args, err);
    if (status == ANYFLASH_OK)
        status = take_seed(call, args, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->q, &gradients[0], &back.dq, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->k, &gradients[1], &back.dk, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->v, &gradients[2], &back.dv, err);
    if (status == ANYFLASH_OK)
        status = context_of(&context, err);
    return status == ANYFLASH_OK ? anyflash_attend_backward(context, &back, err) : status;
}

static enum anyflash_status backward(const struct af_torch_flash_call *call,
                                     af_torch_tensor gradients[3], struct anyflash_error *err)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    af_torch_tensor copy = NULL;
    enum anyflash_status status = af_torch_flash_call_problem(call, &args, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!af_torch_packed_rows(&af_torch, call->dout, &copy))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "grad_out cannot be made contiguous");
    status = attend_backward(call, &args, copy != NULL ? copy : call->dout, gradients, err);
    drop(&copy, 1);
    return status;
}

void af_torch_flash_backward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_torch_flash_call call;
    struct anyflash_error err = {0};
    af_torch_tensor gradients[3] = {NULL};
    (void)output_count;
    af_torch_flash_call_open(&af_torch, AF_TORCH_FLASH_BACKWARD, stack, input_count, &call);
    enum anyflash_status status = begin_call(&err);
    if (status == ANYFLASH_OK)
        status = backward(&call, gradients, &err);
    af_torch_arguments_close(&call.arguments);
    finish(status, &err, gradients, 3, stack);
}
