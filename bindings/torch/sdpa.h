/*
 * sdpa.h: the two kernels of F.scaled_dot_product_attention on the CPU.
 * Registered by switch.c.
 */
#ifndef AF_BINDINGS_TORCH_SDPA_H
#define AF_BINDINGS_TORCH_SDPA_H

#include "bindings/torch/shim.h"

/*
 * _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p,
 * is_causal, *, attn_mask, scale) -> (output, logsumexp), and its backward.
 */
af_torch_kernel af_torch_sdpa_forward;
af_torch_kernel af_torch_sdpa_backward;

#endif
