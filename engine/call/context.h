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

/*
 * Returns at least `size_bytes` of scratch memory, aligned to 64 bytes and valid
 * until the next call; NULL when memory runs out. The caller must have locked
 * context->turn.
 */
void *af_context_memory(struct anyflash_context *context, size_t size_bytes);

#endif
