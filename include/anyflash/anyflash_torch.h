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

/* What anyflash_torch_enable() may be asked to take over on the CPU. */
enum anyflash_torch_operators {
    /* aten::_scaled_dot_product_flash_attention_for_cpu and its backward */
    ANYFLASH_TORCH_SDPA = 1,
    /* aten::_flash_attention_forward and _flash_attention_backward */
    ANYFLASH_TORCH_FLASH = 2,
    /* aten::_flash_attention_forward_no_dropout_inplace, which not every torch has */
    ANYFLASH_TORCH_FLASH_OUT = 4,
    ANYFLASH_TORCH_ALL = 7
};

/*
 * Switches the engine on, and registers its kernels for `operators`, bits of
 * enum anyflash_torch_operators, where that has not happened before.
 * `libtorch_cpu` is a handle of dlopen() to torch's library. The first call
 * should come before other threads call these operators, as torch's dispatcher
 * asks for. Fails with UNSUPPORTED, naming the function that this torch lacks,
 * or IO when torch refuses the registration.
 *
 * _flash_attention_forward is taken with the argument lists of torch 2.7 to
 * 2.15, which end at alibi_slopes, block_table or num_splits: the caller compares
 * them with the schema.
 */
ANYFLASH_API enum anyflash_status anyflash_torch_enable(void *libtorch_cpu, uint32_t operators,
                                                        struct anyflash_error *err);

/*
 * The two kernels of SDPA themselves, for torch 2.4 to 2.6, whose shim cannot register them:
 * who does it otherwise calls them with a stack of one slot for each argument
 * of the operator. Tensors are handles that the kernel deletes; an optional
 * argument is NULL or the address of a cell with its bits, which stays the
 * caller's. The results stand in the first slots, 0 where torch refused. Switches
 * the engine on. Fails as anyflash_torch_enable(), and when that was called.
 */
typedef void anyflash_torch_kernel(uint64_t *stack, uint64_t input_count,
                                   uint64_t output_count);
ANYFLASH_API enum anyflash_status anyflash_torch_kernels(void *libtorch_cpu,
                                                         anyflash_torch_kernel **forward_out,
                                                         anyflash_torch_kernel **backward_out,
                                                         struct anyflash_error *err);

/*
 * Switches the engine off: from now on attention is torch's own, and the other
 * operators fail. Calls that are running end normally, in any thread; the kernels
 * stay registered, which costs a call 0.4 microseconds.
 */
ANYFLASH_API void anyflash_torch_disable(void);

/*
 * After anyflash_torch_disable(): takes the kernels of ANYFLASH_TORCH_FLASH and
 * FLASH_OUT from torch's dispatcher, so that those operators fail in torch's own
 * words. Only where no other thread may be calling them: the dispatcher frees a
 * kernel that is in use. Nothing happens while the engine is on.
 */
ANYFLASH_API void anyflash_torch_withdraw(void);

/*
 * Kernels for the operators attend, attend_forward and attend_backward of the
 * namespace "anyflash", whose schemas the Python package defines; they stay for
 * the life of the process, and a second call changes nothing. What a kernel
 * refuses is thrown as torch's own errors are. Fails as anyflash_torch_enable().
 */
ANYFLASH_API enum anyflash_status anyflash_torch_operators(void *libtorch_cpu,
                                                           struct anyflash_error *err);

/*
 * The calling thread's context on torch's own OpenMP threads, as many as
 * torch.set_num_threads() set, for programs that call the engine beside torch:
 * two pools in one process would fight for the cores. It belongs to the library:
 * ask for it before each call, and do not free it. NULL when memory fails.
 */
ANYFLASH_API struct anyflash_context *anyflash_torch_context(void *libtorch_cpu);

/* How many calls came while the engine was on, and how many of them went on to torch. */
ANYFLASH_API void anyflash_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out);

#ifdef __cplusplus
}
#endif

#endif
