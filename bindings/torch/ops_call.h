/*
 * ops_call.h: what the dispatcher hands to a kernel of ops.c, opened. Private
 * to this module.
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
    int32_t i32;
};
#undef AF_OPS

/*
 * Fails with UNSUPPORTED, naming the function that is missing. Without `registry`
 * kernels are called by Python: check_fail does nothing then.
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
    struct anyflash_attend_args args; /* with numbers and sizes set */
};

/*
 * Reads the slots: `tensor_count` tensors, of which q, k, v start at `first`,
 * and the options. Must be closed whatever it returns. Fails with ARGUMENT.
 */
enum anyflash_status af_ops_call_open(const struct af_ops_shim *shim, const uint64_t *stack,
                                      size_t tensor_count, size_t first,
                                      struct af_ops_call *call, struct anyflash_error *err);

/* Deletes what the dispatcher gave. */
void af_ops_call_close(struct af_ops_call *call);

/* Where a tensor of these sizes is; of an empty one somewhere. False without memory. */
bool af_ops_data(const struct af_ops_shim *shim, af_torch_tensor tensor, const int64_t *sizes,
                 int64_t rank, void **data_out);

/* What a tensor holds; false when torch refuses or it has more than four dimensions. */
bool af_ops_array(const struct af_ops_shim *shim, af_torch_tensor tensor,
                  struct af_array *array_out);

#endif
