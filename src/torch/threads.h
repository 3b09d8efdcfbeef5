/*
 * threads.h: the engine on torch's own OpenMP threads: two pools in one process
 * would fight for the cores.
 */
#ifndef AF_TORCH_THREADS_H
#define AF_TORCH_THREADS_H

#include "base/base.h"

/*
 * The context for as many threads as torch.set_num_threads() set for the calling
 * thread. Kept for the life of the process. NULL when memory fails. The threads
 * are started by GOMP_parallel where `libtorch_cpu` (the first call's; a handle
 * of dlopen()) finds it; without it they are our own.
 */
struct anyflash_context *af_torch_context(void *libtorch_cpu);

#endif
