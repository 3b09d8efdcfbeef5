/*
 * context.h: the contents of a context: threads, memory that is kept between
 * calls, and the features of the processor.
 */
#ifndef AF_ENGINE_CALL_CONTEXT_H
#define AF_ENGINE_CALL_CONTEXT_H

#include <pthread.h>

#include "engine/base/pool.h"

struct anyflash_context {
    pthread_mutex_t turn; /* held during a call: pool and memory serve one call at a time */
    struct af_pool *pool;
    uint32_t cpu_features;
    struct anyflash_context_args args; /* allocate and release are set */
    void *memory;                      /* scratch of earlier calls, grown when needed */
    size_t memory_bytes;
};

/* Computes a call, whose state is `call`, with `context`. */
typedef enum anyflash_status af_context_body(struct anyflash_context *context, void *call,
                                             struct anyflash_error *err);

/*
 * Calls `body` when it is the call's turn; with a context of its own if `context` is NULL.
 * Fails as `body` does or, without a context, with NO_MEMORY.
 */
enum anyflash_status af_context_call(struct anyflash_context *context, af_context_body *body,
                                     void *call, struct anyflash_error *err);

/*
 * Sets *memory_out to at least `size_bytes` of scratch memory, aligned to 64 bytes and valid
 * until the next call. Fails with NO_MEMORY. For a body only.
 */
enum anyflash_status af_context_memory(struct anyflash_context *context, size_t size_bytes,
                                       void **memory_out, struct anyflash_error *err);

/*
 * Runs pieces [0, count) of a call of `flops` operations: on the pool as af_pool_run() does
 * or, if the call is small, on this thread. For a body only.
 */
void af_context_run(struct anyflash_context *context, double flops, int64_t count,
                    int64_t together, af_pool_body *body, void *call);

#endif
