/*
 * sdpa_call.h: what the dispatcher hands to a kernel of sdpa.c, as the problem
 * it makes for the engine. Private to this module.
 */
#ifndef AF_BINDINGS_TORCH_SDPA_CALL_H
#define AF_BINDINGS_TORCH_SDPA_CALL_H

#include "bindings/torch/arguments.h"

struct af_sdpa_call {
    struct af_torch_arguments arguments; /* tensors first */
    af_torch_tensor mask;                /* or NULL */
    double dropout;
    double scale; /* when scaled */
    bool scaled;
    bool causal;
};

/* Reads the slots: `tensor_count` tensors, 3 or 6, then dropout, causal, mask and scale. */
void af_sdpa_call_open(const struct af_torch_shim *shim, const uint64_t *stack,
                       size_t tensor_count, struct af_sdpa_call *call);

/* The tensor as the engine takes it; [B, H, S, D]. */
struct anyflash_tensor af_sdpa_tensor(const struct af_torch_view *view);

/*
 * The problem of q, k, v, which are tensor `first` and the two after it, without
 * outputs. False for what the engine does not take here (another type, rank or
 * head count, a last dimension with a stride, an empty side, a mask that is
 * broadcast over keys).
 */
bool af_sdpa_call_problem(const struct af_sdpa_call *call, size_t first,
                          struct anyflash_attend_args *args);

#endif
