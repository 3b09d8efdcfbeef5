/*
 * tensors.h: the memory order of a result, and contiguous rows, by torch's rules.
 * Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_TENSORS_H
#define AF_BINDINGS_TORCH_TENSORS_H

#include "bindings/torch/shim.h"

#define AF_TORCH_DIM_MAX 4

/*
 * Computes dense strides for `sizes` in the stride order of `like`, as
 * empty_like() does.
 */
void af_torch_dense_strides(int64_t dim, const int64_t *sizes, const int64_t *like,
                            int64_t *strides_out);

/*
 * Makes a contiguous copy if the last dimension of `tensor` (at most
 * AF_TORCH_DIM_MAX dimensions) has a stride other than 1, as in the gradient of
 * a sum; else *copy_out is NULL. False when torch fails.
 */
bool af_torch_packed_rows(const struct af_torch_shim *shim, af_torch_tensor tensor,
                          af_torch_tensor *copy_out);

#endif
