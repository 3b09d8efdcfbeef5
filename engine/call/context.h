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
 * until the next call. Fails with NO_MEMORY. Only an af_context_body may call it.
 */
enum anyflash_status af_context_memory(struct anyflash_context *context, size_t size_bytes,
                                       void **memory_out, struct anyflash_error *err);

/* Parts of that memory start at multiples of 64 bytes. */
static inline size_t af_context_round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* About how many operations a call takes: `each` for every query, key and element of a row. */
double af_context_flops(const struct anyflash_attend_args *a, double each);

/*
 * Runs pieces [0, count) of a call of `flops` operations. A large call uses the pool, as
 * af_pool_run() does; a small one stays on this thread. Only an af_context_body may call it.
 */
void af_context_run(struct anyflash_context *context, double flops, int64_t count,
                    int64_t together, af_pool_body *body, void *call);

#endif
