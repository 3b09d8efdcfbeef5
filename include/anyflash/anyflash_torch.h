/*
 * anyflash_torch.h: the engine as torch's CPU attention, for a process that has
 * torch loaded. Plain C functions are registered through the stable C shim that
 * libtorch_cpu exports (torch 2.7 and newer): nothing is compiled against
 * torch, and nothing of torch is linked.
 *
 * The registration is of the process, not of a thread. What the engine
 * declines goes to torch's own kernel unchanged. All functions may be called
 * from any thread.
 */
#ifndef ANYFLASH_ANYFLASH_TORCH_H
#define ANYFLASH_ANYFLASH_TORCH_H

#include "anyflash/anyflash.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Registers the engine for aten::_scaled_dot_product_flash_attention_for_cpu
 * and its backward. `libtorch_cpu` is a handle of dlopen() to torch's library.
 * A second call changes nothing. Fails with UNSUPPORTED, naming the function
 * that this torch lacks, or IO when torch refuses the registration.
 */
ANYFLASH_API enum anyflash_status anyflash_torch_enable(void *libtorch_cpu,
                                                        struct anyflash_error *err);

/*
 * The two kernels themselves, for torch 2.6, whose shim cannot register them:
 * who does it otherwise calls them with a stack of one slot for each argument
 * of the operator. Tensors are handles that the kernel deletes; an optional
 * argument is NULL or the address of a cell with its bits, which stays the
 * caller's. The results stand in the first slots. Fails as
 * anyflash_torch_enable(), and when that was called.
 */
typedef void anyflash_torch_kernel(uint64_t *stack, uint64_t input_count,
                                   uint64_t output_count);
ANYFLASH_API enum anyflash_status anyflash_torch_kernels(void *libtorch_cpu,
                                                         anyflash_torch_kernel **forward_out,
                                                         anyflash_torch_kernel **backward_out,
                                                         struct anyflash_error *err);

/* Takes the registration back; calls that are running end normally. */
ANYFLASH_API void anyflash_torch_disable(void);

/*
 * A context on torch's own OpenMP threads, as many as torch.set_num_threads() set
 * for the calling thread, for programs that call the engine beside torch: two
 * pools in one process would fight for the cores. It belongs to the library and
 * is not freed. NULL when memory fails.
 */
ANYFLASH_API struct anyflash_context *anyflash_torch_context(void *libtorch_cpu);

/* How many calls came since the library was loaded, and how many of them went on to torch. */
ANYFLASH_API void anyflash_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out);

#ifdef __cplusplus
}
#endif

#endif
