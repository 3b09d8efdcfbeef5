/*
 * flash_backward.c: torch's _flash_attention_backward. Gradients have the
 * memory order of their tensors.
 */
#include "bindings/torch/flash.h"
#include "bindings/torch/flash_results.h"
#include "bindings/torch/switch.h"

/* Seed and offset as the forward left them. */
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

/* A gradient in the memory order of its tensor, for the engine to write. */
static enum anyflash_status add_gradient(af_torch_tensor of, af_torch_tensor *gradient_out,
                                         struct anyflash_tensor *place,
                                         struct anyflash_error *err)
{
    struct af_torch_view view;
    struct af_torch_view gradient;
    if (!af_torch_view_of(&af_torch, of, &view))
        return af_fail(err, ANYFLASH_E_INTERNAL, "a tensor has no memory");
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
    enum anyflash_status status = af_torch_flash_take_output(call, call->out, args, err);
    o = args->o;
    if (status == ANYFLASH_OK)
        status = af_torch_flash_take_output(call, dout, args, err); /* as the output */
    back.dout = args->o;
    args->o = o;
    if (status == ANYFLASH_OK)
        status = af_torch_flash_take_lse(call->lse, args, err);
    if (status == ANYFLASH_OK)
        status = take_seed(call, args, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->q, &gradients[0], &back.dq, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->k, &gradients[1], &back.dk, err);
    if (status == ANYFLASH_OK)
        status = add_gradient(call->v, &gradients[2], &back.dv, err);
    if (status == ANYFLASH_OK)
        status = af_torch_flash_context(&context, err);
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
    af_torch_flash_drop(&copy, 1);
    return status;
}

void af_torch_flash_backward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_torch_flash_call call;
    struct anyflash_error err = {0};
    af_torch_tensor gradients[3] = {NULL};
    (void)output_count;
    af_torch_flash_call_open(&af_torch, AF_TORCH_FLASH_BACKWARD, stack, input_count, &call);
    enum anyflash_status status = af_torch_flash_begin(&err);
    if (status == ANYFLASH_OK)
        status = backward(&call, gradients, &err);
    af_torch_arguments_close(&call.arguments);
    af_torch_flash_finish(status, &err, gradients, 3, stack);
}
