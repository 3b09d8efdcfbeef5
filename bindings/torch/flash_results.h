/*
 * flash_results.h: what the FlashAttention kernels write: output, logsumexp, and
 * how a call ends. Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_FLASH_RESULTS_H
#define AF_BINDINGS_TORCH_FLASH_RESULTS_H

#include "bindings/torch/flash_call.h"
#include "bindings/torch/tensors.h"

/* Counts a call; fails with UNSUPPORTED when the engine is switched off. */
enum anyflash_status af_torch_flash_begin(struct anyflash_error *err);

/* Sizes of the output: those of the query, with values' head size. */
void af_torch_flash_output_sizes(const struct af_torch_view *q,
                                 const struct anyflash_attend_args *args,
                                 int64_t sizes[AF_TORCH_DIM_MAX]);

/* `out`, which has the output's sizes and type, as args->o; fails with ARGUMENT. */
enum anyflash_status af_torch_flash_take_output(const struct af_torch_flash_call *call,
                                                af_torch_tensor out,
                                                struct anyflash_attend_args *args,
                                                struct anyflash_error *err);

/* A logsumexp: [B, H, Sq] or, of packed queries, [H, total]; contiguous. NULL: no memory. */
af_torch_tensor af_torch_flash_new_lse(const struct anyflash_attend_args *args);

/* `lse` as args->lse; fails with ARGUMENT when it is not what the forward returns. */
enum anyflash_status af_torch_flash_take_lse(af_torch_tensor lse,
                                             struct anyflash_attend_args *args,
                                             struct anyflash_error *err);

/* The engine on torch's threads. */
enum anyflash_status af_torch_flash_context(struct anyflash_context **context_out,
                                            struct anyflash_error *err);

/* Deletes those that are there, and sets them to NULL. */
void af_torch_flash_drop(af_torch_tensor *tensors, size_t count);

/*
 * Puts the results on the stack; or, when the status is not OK, drops them and
 * throws. Call it last: nothing may be left to free.
 */
void af_torch_flash_finish(enum anyflash_status status, const struct anyflash_error *err,
                           af_torch_tensor *results, size_t count, uint64_t *stack);

#endif
