/*
 * tensors.h: new tensors in the memory order of another, and rows made
 * contiguous, by torch's rules. Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_TENSORS_H
#define AF_BINDINGS_TORCH_TENSORS_H

#include "bindings/torch/shim.h"

#define AF_TORCH_DIM_MAX 4

/* Dense strides for `sizes` in the order of strides of `like`, as empty_like() makes them. */
void af_torch_dense_strides(int64_t dim, const int64_t *sizes, const int64_t *like,
                            int64_t *strides_out);

/* A new CPU tensor of `sizes` with dense strides as in `like`; NULL when torch refuses. */
af_torch_tensor af_torch_new_like(const struct af_torch_shim *shim,
                                  const struct af_torch_view *like, const int64_t *sizes);

/*
 * A contiguous copy where the last dimension of `tensor`, of at most
 * AF_TORCH_DIM_MAX, has a stride, as in the gradient of a sum; else NULL in
 * *copy_out. False when torch refuses.
 */
bool af_torch_packed_rows(const struct af_torch_shim *shim, af_torch_tensor tensor,
                          af_torch_tensor *copy_out);

#endif
