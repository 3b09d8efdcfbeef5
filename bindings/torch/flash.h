/*
 * flash.h: kernels for torch's FlashAttention operators on the CPU, where torch
 * has none. torch.nn.attention.varlen calls these operators. Registered by
 * switch.c.
 */
#ifndef AF_BINDINGS_TORCH_FLASH_H
#define AF_BINDINGS_TORCH_FLASH_H

#include "bindings/torch/shim.h"

/*
 * _flash_attention_forward(query, key, value, ...) -> (output, logsumexp,
 * rng_state, unused, debug_mask), _flash_attention_forward_no_dropout_inplace(
 * out, query, key, value, ...) -> logsumexp, and _flash_attention_backward. A
 * call that the engine declines raises a RuntimeError that names the argument.
 */
af_torch_kernel af_torch_flash_forward;
af_torch_kernel af_torch_flash_forward_out;
af_torch_kernel af_torch_flash_backward;

#endif
