/*
 * anyflash_torch.h: the engine as torch's CPU attention, for a process that has
 * torch loaded. Plain C functions are registered through the stable C shim that
 * libtorch_cpu exports (torch 2.7 and newer): nothing is compiled against or
 * linked with torch.
 *
 * Registration applies to the whole process. Calls that the engine declines go
 * to torch's own kernel unchanged. All functions may be called from any thread.
 */
#ifndef ANYFLASH_ANYFLASH_TORCH_H
#define ANYFLASH_ANYFLASH_TORCH_H

#include "anyflash/anyflash.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Switches the engine on, and registers its kernels for
 * aten::_scaled_dot_product_flash_attention_for_cpu and its backward, unless they
 * are registered already or called by Python: see anyflash_torch_caller().
 * `libtorch_cpu` is a handle of dlopen() to torch's library. The first call
 * should come before other threads call these operators, as torch's dispatcher
 * requires. Fails with UNSUPPORTED, naming the function that this torch lacks,
 * or IO when torch refuses the registration.
 */
ANYFLASH_API enum anyflash_status anyflash_torch_enable(void *libtorch_cpu,
                                                        struct anyflash_error *err);

/* Kernels that anyflash_torch_caller() returns. They take the arguments of these operators. */
enum anyflash_torch_callable {
    ANYFLASH_TORCH_CALL_SDPA,           /* aten::_scaled_dot_product_flash_attention_for_cpu */
    ANYFLASH_TORCH_CALL_SDPA_BACKWARD,  /* and its backward */
    ANYFLASH_TORCH_CALL_ATTEND,         /* anyflash::attend_forward */
    ANYFLASH_TORCH_CALL_ATTEND_DENSE,   /* anyflash::attend_forward.dense */
    ANYFLASH_TORCH_CALL_ATTEND_BACKWARD /* anyflash::attend_backward */
};

/*
 * For torch 2.4 to 2.6, whose shim cannot register kernels: returns a new
 * reference to a CPython builtin that calls one kernel. The builtin takes all
 * arguments of the operator by position and returns a tuple of tensors; or None,
 * without an exception, if the call is invalid or declined. `give` and `take`
 * are torch's own unsafe_alloc_void_ptr_from_tensor and
 * alloc_tensor_by_stealing_from_void_ptr; `python` is a handle of dlopen() with
 * the interpreter's functions. The caller holds the GIL, which is released while
 * a kernel computes. The SDPA kernels use the engine only after
 * anyflash_torch_enable(), which then registers none. Returns NULL, without an
 * exception, if something is missing or kernels are registered; *err says what.
 */
ANYFLASH_API void *anyflash_torch_caller(void *python, void *libtorch_cpu,
                                         enum anyflash_torch_callable callable, void *give,
                                         void *take, struct anyflash_error *err);

/*
 * Switches the engine off: from now on torch computes attention itself. Running
 * calls finish normally, in any thread; the kernels stay registered, which adds
 * 0.4 microseconds to each call.
 */
ANYFLASH_API void anyflash_torch_disable(void);

/*
 * Kernels for the operators attend, attend_forward and attend_backward of the
 * namespace "anyflash", whose schemas the Python package defines; they stay for
 * the life of the process, and a second call changes nothing. If a kernel
 * refuses its arguments, it throws a C++ exception as torch's own kernels do.
 * Fails as anyflash_torch_enable().
 */
ANYFLASH_API enum anyflash_status anyflash_torch_operators(void *libtorch_cpu,
                                                           struct anyflash_error *err);

/*
 * Returns the calling thread's context on torch's own OpenMP threads, with as
 * many threads as torch.set_num_threads() set. It is for programs that call the
 * engine beside torch: two pools in one process would compete for the cores. The
 * library owns the context: call this before each use, and do not free it. NULL
 * when memory runs out.
 */
ANYFLASH_API struct anyflash_context *anyflash_torch_context(void *libtorch_cpu);

/*
 * What measuring this machine decided (python/anyflash/_calibration.py): from now
 * on the engine uses kernels of at most `cpu_level`, an enum anyflash_cpu_level
 * that anyflash_context_new() must accept, and passes calls of scaled dot product
 * attention on to torch's own kernel, forward and backward: with more
 * than 16 queries if `torch_prefill` has the bit 1 << dtype of their enum
 * anyflash_dtype; with up to 16, if `torch_decode` has it and there are more than
 * 128 keys, or `torch_short` has it and there are not. The backward alone goes on to
 * torch with fewer than 24 queries, if `torch_few` has the bit and heads share no keys.
 * At first: ANYFLASH_CPU_ALL and 0s. Calls that are running are not affected.
 */
ANYFLASH_API void anyflash_torch_choose(int32_t cpu_level, uint32_t torch_prefill,
                                        uint32_t torch_decode, uint32_t torch_short,
                                        uint32_t torch_few);

/*
 * A step of vLLM in which each request has one new token, at position
 * lengths[i] - 1 of request i. Its key and value are written to row
 * slots[i] % page_size of page slots[i] / page_size of the cache, or not at all if
 * slots[i] is negative.
 */
struct anyflash_torch_step {
    const int32_t *lengths; /* [requests], keys of each, including the new one */
    const int32_t *table;   /* [requests, table_pages], rows table_stride apart */
    const int64_t *slots;   /* [requests] */
    int64_t requests;
    int64_t table_stride;
    int64_t table_pages;
    int64_t page_size; /* positive */
};

/*
 * Checks whether anyflash_attend() could append the new keys itself: each key at its
 * slot, and no two in the same page. If so, returns 1 and writes the lengths before
 * the step to past_out [requests]. Otherwise returns 0, and past_out is undefined.
 */
ANYFLASH_API int32_t anyflash_torch_appends(const struct anyflash_torch_step *step,
                                            int32_t *past_out);

/*
 * New keys or new values, one row for each token t and key head g, and the pages to
 * write them to: row slots[t] % page_size of head g in page slots[t] / page_size.
 * The rows of one head in a page are adjacent. All strides are bytes.
 */
struct anyflash_torch_rows {
    const void *rows;
    void *pages;
    const int64_t *slots; /* [tokens]; negative: the token is not written */
    int64_t tokens;
    int64_t heads;
    int64_t row_bytes;
    int64_t token_stride;
    int64_t head_stride;
    int64_t page_count;
    int64_t page_size; /* positive */
    int64_t page_stride;
    int64_t page_head_stride;
};

/*
 * Copies the rows on the calling thread and returns 1; returns 0 and copies none
 * if a slot is beyond the last page.
 */
ANYFLASH_API int32_t anyflash_torch_write(const struct anyflash_torch_rows *rows);

/* Counts the calls while the engine was on, and those of them passed on to torch. */
ANYFLASH_API void anyflash_torch_counts(uint64_t *calls_out, uint64_t *passed_on_out);

#ifdef __cplusplus
}
#endif

#endif
