/*
 * threads.h: runs the engine on torch's own OpenMP threads: two pools in one
 * process would compete for the cores.
 */
#ifndef AF_BINDINGS_TORCH_THREADS_H
#define AF_BINDINGS_TORCH_THREADS_H

#include "engine/base/base.h"

/*
 * The calling thread's context, with as many workers as torch.set_num_threads()
 * set; calls from other threads do not wait for it. Valid until this thread
 * calls again or ends. NULL when memory runs out. Workers are started by
 * GOMP_parallel if `libtorch_cpu` (that of the first call; a handle of dlopen())
 * leads to it; otherwise, on Windows, and in a forked child, the engine starts its
 * own threads.
 */
struct anyflash_context *af_torch_context(void *libtorch_cpu);

#endif
