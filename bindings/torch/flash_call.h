/*
 * flash_call.h: the arguments of torch's _flash_attention_forward, of its form
 * with an output, and of _flash_attention_backward, converted to a problem for
 * the engine. Private to this module.
 *
 * Tensors are dense [B, S, H, D] or, with cumulative lengths, packed [total, H,
 * D]; with a block table keys are pages [pages, page size, G, D]. Masks are
 * aligned bottom-right, as in FlashAttention.
 */
#ifndef AF_BINDINGS_TORCH_FLASH_CALL_H
#define AF_BINDINGS_TORCH_FLASH_CALL_H

#include "bindings/torch/arguments.h"

enum af_torch_flash_operator {
    AF_TORCH_FLASH_FORWARD,
    AF_TORCH_FLASH_FORWARD_OUT,
    AF_TORCH_FLASH_BACKWARD
};

struct af_torch_flash_call {
    struct af_torch_arguments arguments;
    /* Not owned; NULL where absent. */
    af_torch_tensor q, k, v;
    af_torch_tensor out;       /* of AF_TORCH_FLASH_FORWARD_OUT and AF_TORCH_FLASH_BACKWARD */
    af_torch_tensor dout, lse; /* of AF_TORCH_FLASH_BACKWARD */
    af_torch_tensor rng_state; /* of AF_TORCH_FLASH_BACKWARD: seed and offset of the dropout */
    af_torch_tensor cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, block_table;
    int64_t max_q, max_k, window_left, window_right;
    double dropout, scale;
    bool scaled, causal, debug_mask;
};

/* Reads `count` slots; the number differs between the schemas of torch 2.7 to 2.15. */
void af_torch_flash_call_open(const struct af_torch_shim *shim,
                              enum af_torch_flash_operator operation, const uint64_t *stack,
                              uint64_t count, struct af_torch_flash_call *call);

/* Converts the tensor to the engine's form: [B, S, H, D] or [total, H, D]. */
struct anyflash_tensor af_torch_flash_tensor(const struct af_torch_view *view);

/* Reads a CPU tensor of `dim` dimensions, the last one contiguous; fails with ARGUMENT. */
enum anyflash_status af_torch_flash_rows(const struct af_torch_flash_call *call,
                                         const char *name, af_torch_tensor tensor, int64_t dim,
                                         struct af_torch_view *view_out,
                                         struct anyflash_error *err);

/*
 * Fills in the problem, without outputs and the dropout seed. Fails with
 * ARGUMENT, naming the argument, or UNSUPPORTED.
 */
enum anyflash_status af_torch_flash_call_problem(const struct af_torch_flash_call *call,
                                                 struct anyflash_attend_args *args,
                                                 struct anyflash_error *err);

#endif
