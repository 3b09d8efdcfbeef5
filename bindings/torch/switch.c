/*
 * switch.c: the few words of state that the kernels share. They are static: the
 * dispatcher calls a kernel with nothing of ours.
 */
#include "bindings/torch/switch.h"

#include <stdatomic.h>

struct af_torch_shim af_torch;

static atomic_bool on;
static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t passed_on;

void af_torch_switch(bool to_on)
{
    atomic_store(&on, to_on);
}

bool af_torch_is_on(void)
{
    return atomic_load_explicit(&on, memory_order_acquire);
}

void af_torch_count_call(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void af_torch_count_passed_on(void)
{
    atomic_fetch_add_explicit(&passed_on, 1, memory_order_relaxed);
}

void af_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out)
{
    *calls_out = atomic_load_explicit(&calls, memory_order_relaxed);
    *passed_on_out = atomic_load_explicit(&passed_on, memory_order_relaxed);
}
