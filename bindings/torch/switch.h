/*
 * switch.h: whether the engine is on, its call counts, and the shim that the
 * kernels use. Private to this room.
 *
 * Kernels stay registered: torch's dispatcher cannot remove one safely while
 * other threads call it. While the engine is off, they pass every attention call
 * on to torch's own kernel.
 */
#ifndef AF_BINDINGS_TORCH_SWITCH_H
#define AF_BINDINGS_TORCH_SWITCH_H

#include "bindings/torch/shim.h"

/* Set before the first kernel is registered, and never changed. */
extern struct af_torch_shim af_torch;

/*
 * Loads the shim without the registry, for kernels called from Python. Fails
 * with UNSUPPORTED, also if kernels are registered.
 */
enum anyflash_status af_torch_load_for_python(void *libtorch_cpu, struct anyflash_error *err);

bool af_torch_is_on(void);

/* What anyflash_torch_choose() set: the level, and whether such a call is torch's. */
int32_t af_torch_cpu_level(void);
bool af_torch_keeps(int32_t dtype, int64_t queries, int64_t keys);

/* Whether the backward alone is torch's. */
bool af_torch_keeps_backward(int32_t dtype, int64_t queries);

/* Calls that came while it was on, and those of them that went on to torch's own kernel. */
void af_torch_count_call(void);
void af_torch_count_passed_on(void);

#endif
