/*
 * sdpa_call.h: what the dispatcher hands to a kernel of sdpa.c, opened: tensors,
 * mask, scale, and the problem they make for the engine. Private to this module.
 */
#ifndef AF_TORCH_SDPA_CALL_H
#define AF_TORCH_SDPA_CALL_H

#include "torch/shim.h"

#define AF_SDPA_TENSORS_MAX 6

struct af_sdpa_call {
    const struct af_torch_shim *shim;
    af_torch_tensor tensors[AF_SDPA_TENSORS_MAX];
    size_t tensor_count;
    void *mask_cell;
    void *scale_cell;
    af_torch_tensor mask;           /* or NULL */
    af_torch_tensor undefined_mask; /* autograd's word for "none"; or NULL */
    double scale;                   /* with scale_cell */
    double dropout;
    int32_t causal;
};

/* Reads the slots: `tensor_count` tensors, then dropout, causal, mask and scale. */
void af_sdpa_call_open(const struct af_torch_shim *shim, const uint64_t *stack,
                       size_t tensor_count, struct af_sdpa_call *call);

/* Deletes what the dispatcher gave. */
void af_sdpa_call_close(struct af_sdpa_call *call);

/* The tensor as the engine takes it; [B, H, S, D]. */
struct anyflash_tensor af_sdpa_tensor(const struct af_torch_view *view);

/*
 * The problem of q, k, v = call->tensors[first] and the two after it, without
 * outputs. False for what the engine does not take here (another type, rank or
 * head count, a last dimension with a stride, an empty side, a mask that is
 * broadcast over keys).
 */
bool af_sdpa_call_problem(const struct af_sdpa_call *call, size_t first,
                          struct anyflash_attend_args *args);

#endif
