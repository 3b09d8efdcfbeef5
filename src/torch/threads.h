/*
 * threads.h: the engine on torch's own OpenMP threads: two pools in one process
 * would fight for the cores.
 */
#ifndef AF_TORCH_THREADS_H
#define AF_TORCH_THREADS_H

#include "base/base.h"

/*
 * Finds GOMP_parallel and omp_get_max_threads where torch finds them. Without
 * them the contexts have threads of their own.
 */
void af_torch_threads_find(void *libtorch_cpu);

/*
 * The context for as many threads as torch.set_num_threads() set for the calling
 * thread. Kept for the life of the process. NULL when memory fails.
 */
struct anyflash_context *af_torch_context(void);

#endif
