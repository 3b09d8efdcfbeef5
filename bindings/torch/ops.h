/*
 * ops.h: the CPU kernels of torch's operators anyflash::attend_forward,
 * anyflash::attend and anyflash::attend_backward, which the Python package
 * defines. Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_OPS_H
#define AF_BINDINGS_TORCH_OPS_H

#include "bindings/torch/ops_call.h"

/* The shim that the kernels use; set before they are registered. */
extern struct af_ops_shim af_ops;

af_torch_kernel af_ops_forward;
af_torch_kernel af_ops_forward_dense;
af_torch_kernel af_ops_forward_out; /* the same without the lse */
af_torch_kernel af_ops_backward;

/*
 * Loads the shim without the registry, for kernels called from Python; fails
 * with UNSUPPORTED.
 */
enum anyflash_status af_ops_load_for_python(void *libtorch_cpu, struct anyflash_error *err);

#endif
