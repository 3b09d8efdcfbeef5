/*
 * ops.h: the CPU kernels of torch's operators anyflash::attend_forward,
 * anyflash::attend and anyflash::attend_backward, which the Python package
 * defines. Private to this room.
 */
#ifndef AF_BINDINGS_TORCH_OPS_H
#define AF_BINDINGS_TORCH_OPS_H

#include "bindings/torch/shim.h"

/* With one result the forward leaves out the lse. */
af_torch_kernel af_ops_forward;
af_torch_kernel af_ops_forward_dense;
af_torch_kernel af_ops_backward;

/*
 * Loads the shim without the registry, for kernels called from Python; fails
 * with UNSUPPORTED.
 */
enum anyflash_status af_ops_load_for_python(void *libtorch_cpu, struct anyflash_error *err);

#endif
