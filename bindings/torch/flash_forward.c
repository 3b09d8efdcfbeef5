/*
 * flash_forward.c: torch's _flash_attention_forward, and the form that writes
 * into an output of the caller's.
 *
 * The logsumexp of a row that sees no key is +infinity, as in FlashAttention.
 * There is no kernel of torch's to go on to, so failures are exceptions, thrown
 * when all that a call owns is freed.
 */
#include <math.h>

#include "bindings/torch/flash.h"
#include "bindings/torch/flash_results.h"
#include "bindings/torch/switch.h"

#define RESULTS_MAX 5

/* The engine has -infinity where FlashAttention has +infinity; rows are contiguous. */
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
    enum anyflash_status status = af_torch_flash_take_output(call, out, args, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_take_lse(lse, args, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_context(&context, err);
    if (status == ANYFLASH_OK)
        status = anyflash_attend(context, args, err);
    if (status == ANYFLASH_OK)
        flip_empty_rows(args);
    return status;
}

/* A number from torch's generator, so that torch.manual_seed() decides it. */
static enum anyflash_status draw_seed(uint64_t *seed_out, struct anyflash_error *err)
{
    struct af_torch_view view;
    uint64_t stack[2] = {0, 0}; /* the tensor, no generator */
    af_torch_tensor drawn = new_of(af_torch.i64, 1, 1);
    if (drawn == NULL)
        return af_fail_memory(err);
    stack[0] = af_torch_slot_of(drawn);
    if (af_torch.aoti_torch_call_dispatcher("aten::random_", "", stack) != 0)
        return af_fail(err, ANYFLASH_E_IO, "torch has no random number for dropout");
    af_torch_tensor filled = af_torch_tensor_in(stack[0]);
    bool seen = af_torch_view_of(&af_torch, filled, &view);
    if (seen)
        *seed_out = *(const uint64_t *)view.data;
    af_torch.aoti_torch_delete_tensor_object(filled);
    return seen ? ANYFLASH_OK : af_fail(err, ANYFLASH_E_IO, "a random number has no memory");
}

/* Seed and offset, an unused number, and a debug mask that nobody asked for. */
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
        return af_fail(err, ANYFLASH_E_INTERNAL, "query has no memory");
    af_torch_flash_output_sizes(&q, &args, sizes);
    results[0] = af_torch_new_like(&af_torch, &q, sizes);
    results[1] = af_torch_flash_new_lse(&args);
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
    enum anyflash_status status = af_torch_flash_begin(&err);
    if (status == ANYFLASH_OK)
        status = forward(&call, results, &err);
    af_torch_arguments_close(&call.arguments);
    af_torch_flash_finish(status, &err, results, RESULTS_MAX, stack);
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
    *lse = af_torch_flash_new_lse(&args);
    return attend(call, &args, call->out, *lse, err);
}

void af_torch_flash_forward_out(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_torch_flash_call call;
    struct anyflash_error err = {0};
    af_torch_tensor lse = NULL;
    (void)output_count;
    af_torch_flash_call_open(&af_torch, AF_TORCH_FLASH_FORWARD_OUT, stack, input_count, &call);
    enum anyflash_status status = af_torch_flash_begin(&err);
    if (status == ANYFLASH_OK)
        status = forward_out(&call, &lse, &err);
    af_torch_arguments_close(&call.arguments);
    af_torch_flash_finish(status, &err, &lse, 1, stack);
}
