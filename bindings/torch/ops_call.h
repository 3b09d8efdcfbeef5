/*
 * ops_call.h: reads the arguments that the dispatcher passes to a kernel of
 * ops.c. Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_OPS_CALL_H
#define AF_BINDINGS_TORCH_OPS_CALL_H

#include "bindings/numpy/arrays.h"
#include "bindings/torch/shim.h"

#define AF_OPS_TENSORS_MAX 6
#define AF_OPS_OPTIONAL 7

/* Slots of attend_forward's stack. */
enum {
    AF_OPS_SCALE = 12,
    AF_OPS_CAUSAL,
    AF_OPS_WINDOW_LEFT,
    AF_OPS_WINDOW_RIGHT,
    AF_OPS_FORWARD_SLOTS = 19
};

#define AF_OPS(member, symbol, result, arguments) result(*member) arguments;
struct af_ops_shim {
    struct af_torch_shim base;
/* clang-format off */
#include "bindings/torch/ops_functions.inc"
    /* clang-format on */
};
#undef AF_OPS

/*
 * Fails with UNSUPPORTED, naming the missing function. Without `registry`,
 * kernels are called from Python, and check_fail does nothing.
 */
enum anyflash_status af_ops_shim_load(void *libtorch_cpu, bool registry,
                                      struct af_ops_shim *shim_out, struct anyflash_error *err);

struct af_ops_call {
    const struct af_ops_shim *shim;
    af_torch_tensor tensors[AF_OPS_TENSORS_MAX];
    size_t tensor_count;
    void *cells[AF_OPS_OPTIONAL];
    af_torch_tensor optional[AF_OPS_OPTIONAL];
    struct af_arrays arrays;          /* q, k, v are the three tensors from `first` on */
    struct anyflash_attend_args args; /* numbers and sizes are set */
};

/*
 * Reads the slots: `tensor_count` tensors, of which q, k, v start at `first`,
 * and the options. The call must be closed even after a failure. Fails with
 * ARGUMENT.
 */
enum anyflash_status af_ops_call_open(const struct af_ops_shim *shim, const uint64_t *stack,
                                      size_t tensor_count, size_t first,
                                      struct af_ops_call *call, struct anyflash_error *err);

/* Deletes the arguments received from the dispatcher. */
void af_ops_call_close(struct af_ops_call *call);

/*
 * Finds the data of a tensor of these sizes; an empty tensor gets some valid
 * address. False when memory runs out.
 */
bool af_ops_data(const struct af_ops_shim *shim, af_torch_tensor tensor, const int64_t *sizes,
                 int64_t rank, void **data_out);

/*
 * Describes a tensor as an array; false when torch fails or it has more than
 * four dimensions.
 */
bool af_ops_array(const struct af_ops_shim *shim, af_torch_tensor tensor,
                  struct af_array *array_out);

#endif
