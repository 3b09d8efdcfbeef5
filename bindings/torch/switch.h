/*
 * switch.h: whether the engine is asked, how often it was, and the shim that
 * the kernels use. Private to this module.
 *
 * Kernels stay registered once they are: torch's dispatcher does not let one be
 * taken away while other threads call it. Switched off they hand every call of
 * attention to torch's own kernel.
 */
#ifndef AF_BINDINGS_TORCH_SWITCH_H
#define AF_BINDINGS_TORCH_SWITCH_H

#include "bindings/torch/shim.h"

/* Set before the first kernel is registered, and never after. */
extern struct af_torch_shim af_torch;

/*
 * The shim without the registry, for kernels that Python calls. Fails with
 * UNSUPPORTED, also when kernels are registered.
 */
enum anyflash_status af_torch_load_for_python(void *libtorch_cpu, struct anyflash_error *err);

void af_torch_switch(bool on);
bool af_torch_is_on(void);

/* Calls that came while it was on, and those of them that went on to torch's own kernel. */
void af_torch_count_call(void);
void af_torch_count_passed_on(void);
void af_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out);

#endif
