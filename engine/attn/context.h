/*
 * context.h: what a context holds: threads, memory that is kept between calls,
 * what the processor offers.
 */
#ifndef AF_ENGINE_ATTN_CONTEXT_H
#define AF_ENGINE_ATTN_CONTEXT_H

#include <pthread.h>

#include "engine/base/pool.h"

struct anyflash_context {
    pthread_mutex_t turn; /* held during a call: pool and memory serve one at a time */
    struct af_pool *pool;
    uint32_t cpu_features;
    struct anyflash_context_args args; /* allocate and release are set */
    void *memory;                      /* scratch of the last calls, grown when needed */
    size_t memory_bytes;
};

/*
 * At least `size_bytes` of scratch memory, aligned to 64 bytes and valid until the
 * next call; NULL without memory. The caller has locked context->turn.
 */
void *af_context_memory(struct anyflash_context *context, size_t size_bytes);

#endif
