/*
 * mem.h: every allocation of the engine, so that tests can make each fail. They behave as
 * malloc, realloc and free.
 */
#ifndef AF_ENGINE_BASE_MEM_H
#define AF_ENGINE_BASE_MEM_H

#include "engine/base/base.h"

void *af_mem_alloc(size_t size_bytes);
void *af_mem_resize(void *memory, size_t size_bytes);
void af_mem_free(void *memory);

/*
 * Test hook: makes the `nth` allocation from now on (1 = the next) fail and,
 * with `all_after`, every later one too. 0 switches it off. Not thread-safe.
 */
void af_mem_fail_nth(size_t nth, bool all_after);

/* How many allocations were requested since the last af_mem_fail_nth(). */
size_t af_mem_request_count(void);

#endif
