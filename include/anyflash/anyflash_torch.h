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

/* Kernels that anyflash_torch_caller() gives, with the arguments of these operators. */
enum anyflash_torch_callable {
    ANYFLASH_TORCH_CALL_SDPA,           /* aten::_scaled_dot_product_flash_attention_for_cpu */
    ANYFLASH_TORCH_CALL_SDPA_BACKWARD,  /* and its backward */
    ANYFLASH_TORCH_CALL_ATTEND,         /* anyflash::attend_forward */
    ANYFLASH_TORCH_CALL_ATTEND_DENSE,   /* anyflash::attend_forward.dense */
    ANYFLASH_TORCH_CALL_ATTEND_BACKWARD /* anyflash::attend_backward */
};

/*
 * For torch 2.4 to 2.6, whose shim cannot register kernels: a new reference to a
 * builtin of CPython that calls one. It takes all arguments of the operator by
 * position and returns a tuple of tensors; or None, without an exception, for what is
 * wrong or declined. `give` and `take` are torch's own
 * unsafe_alloc_void_ptr_from_tensor and alloc_tensor_by_stealing_from_void_ptr,
 * `python` a handle of dlopen() with the interpreter's functions; the caller
 * holds its lock, which is released while a kernel computes. SDPA's ask the engine
 * after anyflash_torch_enable() with no operators. NULL, without an exception,
 * where something is missing, or kernels are registered; *err says what.
 */
ANYFLASH_API void *anyflash_torch_caller(void *python, void *libtorch_cpu,
                                         enum anyflash_torch_callable callable, void *give,
                                         void *take, struct anyflash_error *err);

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
