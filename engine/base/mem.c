/*
 * mem.c: counted allocation with a failure hook.
 */
#include "engine/base/mem.h"

#include <stdlib.h>

/* Atomic: several threads may use the engine at once. */
static _Atomic size_t request_count;
static size_t failing_request;
static bool failing_after;

static bool request_fails(void)
{
    size_t request = ++request_count;
    if (failing_request == 0)
        return false;
    return failing_after ? request >= failing_request : request == failing_request;
}

void af_mem_fail_nth(size_t nth, bool all_after)
{
    request_count = 0;
    failing_request = nth;
    failing_after = all_after;
}

size_t af_mem_request_count(void)
{
    return request_count;
}

void *af_mem_alloc(size_t size_bytes)
{
    return request_fails() ? NULL : malloc(size_bytes == 0 ? 1 : size_bytes);
}

void *af_mem_resize(void *memory, size_t size_bytes)
{
    return request_fails() ? NULL : realloc(memory, size_bytes == 0 ? 1 : size_bytes);
}

void af_mem_free(void *memory)
{
    free(memory);
}
