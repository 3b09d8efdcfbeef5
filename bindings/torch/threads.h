/*
 * threads.h: the engine on torch's own OpenMP threads: two pools in one process
 * would fight for the cores.
 */
#ifndef AF_BINDINGS_TORCH_THREADS_H
#define AF_BINDINGS_TORCH_THREADS_H

#include "engine/base/base.h"

/*
 * The calling thread's context, for as many workers as torch.set_num_threads()
 * set; calls from other threads do not wait for it. Valid until this thread asks
 * again or ends. NULL when memory fails. Workers are started by GOMP_parallel
 * where `libtorch_cpu` (the first call's; a handle of dlopen()) finds it; without
 * it, and in a forked child, they are our own.
 */
struct anyflash_context *af_torch_context(void *libtorch_cpu);

#endif
